"""The tools of a class: found by their marks, read by their signatures, described, and given their input."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field, create_model

from turnspec_generated.names import MESSAGE_BLOCK_TYPES

from ._base import Environment
from ._marks import Mark, mark_of
from ._types import ListToolsOutput, TerminalToolSpec, ToolOutput, ToolSpec


@dataclass(frozen=True)
class Tool:
    """A tool: the class whose method it is, its input model if it takes any, and how its calls are ordered.

    `spread` maps the fields of the model to the parameters that they go to; None: the model is the one parameter.
    """

    name: str
    description: str
    owner: type
    mark: Mark
    model: type[BaseModel] | None
    spread: Mapping[str, str] | None
    schema: dict[str, Any] | None

    @property
    def exclusive(self) -> bool:
        return self.mark.exclusive or self.mark.terminal

    def arguments(self, input: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of a call; `pydantic.ValidationError` for input that does not fit."""
        if self.model is None:
            return (), {}
        read = self.model.model_validate(input)
        if self.spread is None:
            return (read,), {}
        return (), {parameter: getattr(read, field) for field, parameter in self.spread.items()}


_known: WeakKeyDictionary[type, dict[str, Tool]] = WeakKeyDictionary()


def tools_of(cls: type[Environment]) -> dict[str, Tool]:
    """The tools of an environment and its toolsets, in order of name within each.

    Raises ValueError for what cannot be a tool, for two of one name, and for two terminal ones.
    """
    found = _known.get(cls)
    if found is None:
        found = {}
        for owner in (cls, *cls.toolsets):
            for tool in _of_owner(owner):
                if tool.name in found:
                    raise ValueError(
                        f"{cls.__name__}: the tool {tool.name!r} is defined by both {found[tool.name].owner.__name__} "
                        f"and {owner.__name__}; rename one of them"
                    )
                found[tool.name] = tool
        terminals = [tool.name for tool in found.values() if tool.mark.terminal]
        if len(terminals) > 1:
            raise ValueError(
                f"{cls.__name__}: an environment has at most one terminal tool, not {', '.join(map(repr, terminals))}"
            )
        _known[cls] = found
    return found


def list_of(tools: Mapping[str, Tool], more: Iterable[ToolSpec] = ()) -> ListToolsOutput:
    """The tool list of a class, with further tools of a task."""
    terminal = next((tool for tool in tools.values() if tool.mark.terminal), None)
    specs = [
        ToolSpec(name=tool.name, description=tool.description, input_schema=tool.schema)
        for tool in tools.values()
        if tool.mark.shared and not tool.mark.terminal
    ]
    return ListToolsOutput(
        tools=[*specs, *(spec for spec in more if terminal is None or spec.name != terminal.name)],
        terminal_tool=TerminalToolSpec(**_terminal(terminal)) if terminal else None,
        supports_score_group=False,
        message_block_types=list(MESSAGE_BLOCK_TYPES),
    )


def _terminal(tool: Tool) -> dict[str, Any]:
    names = [item.alias or name for name, item in tool.model.model_fields.items()] if tool.model else []
    return {"name": tool.name, "arg": names[0] if names else None, "description": tool.description}


def _of_owner(owner: type) -> Iterable[Tool]:
    for name in dir(owner):
        function = getattr(owner, name, None)
        mark = mark_of(function)
        if mark is not None and callable(function):
            yield _read(owner, name, function, mark)


def _read(owner: type, name: str, function: Callable[..., Any], mark: Mark) -> Tool:
    where = f"the tool {owner.__name__}.{name}"
    if not mark.declared:
        raise ValueError(f"{where} is marked @terminal alone; add @tool")
    if mark.terminal and mark.concurrent:
        raise ValueError(f"{where} is terminal, so it cannot be concurrent")
    real = inspect.unwrap(function)
    try:
        hints = get_type_hints(real, include_extras=True)
    except Exception as problem:
        raise ValueError(f"{where}: its type hints cannot be read: {problem}") from None
    _check_return(where, hints.get("return"))
    model, spread = _model(where, name, real, hints, _is_bound(owner, name))
    if mark.terminal and model is not None and len(model.model_fields) > 1:
        raise ValueError(f"{where} is terminal, so it takes at most one input, not {len(model.model_fields)}")
    description = inspect.cleandoc(function.__doc__ or "").strip() if spread is not None else (function.__doc__ or "")
    schema = None if model is None else _schema(where, model)
    return Tool(name, description.strip(), owner, mark, model, spread, schema)


def _is_bound(owner: type, name: str) -> bool:
    """Whether the method leaves out its first parameter when it is called on an instance."""
    return not isinstance(inspect.getattr_static(owner, name), staticmethod)


def _check_return(where: str, hint: Any) -> None:
    if get_origin(hint) in (Awaitable, Coroutine):
        hint = get_args(hint)[-1]
    if inspect.isclass(hint) and not issubclass(hint, ToolOutput):
        raise ValueError(f"{where} returns {hint.__name__}; a tool returns ToolOutput")


def _model(
    where: str, name: str, function: Callable[..., Any], hints: dict[str, Any], bound: bool
) -> tuple[type[BaseModel] | None, dict[str, str] | None]:
    """The input model of a tool; of plain parameters one is made, which gives the map too."""
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    if not parameters:
        return None, None
    only = hints.get(parameters[0].name) if len(parameters) == 1 else None
    if inspect.isclass(only) and issubclass(only, BaseModel):
        return only, None
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(f"{where}: the parameter {parameter.name!r} cannot be given by name")
        if parameter.name not in hints:
            raise ValueError(f"{where}: the parameter {parameter.name!r} has no type hint")
        default = ... if parameter.default is parameter.empty else parameter.default
        # Names of our own with an alias: a parameter may be called as something that BaseModel has.
        fields[f"field{index}"] = (hints[parameter.name], Field(default, alias=parameter.name))
    try:
        made: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    except Exception as problem:
        raise ValueError(f"{where}: its parameters make no input model: {problem}") from None
    return made, {f"field{index}": parameter.name for index, parameter in enumerate(parameters)}


def _schema(where: str, model: type[BaseModel]) -> dict[str, Any]:
    try:
        return model.model_json_schema()
    except Exception as problem:
        raise ValueError(f"{where}: its input has no JSON Schema: {problem}") from None
