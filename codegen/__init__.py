"""The code generator of turnspec: schema (data) -> IR -> emitters -> generated/."""
