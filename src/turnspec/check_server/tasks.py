"""The routes that list tasks: four views of one list."""

from __future__ import annotations

from typing import Any

from turnspec.check_server.exchange import Answer
from turnspec.check_server.reading import Desk
from turnspec.check_server.sessions import Place

MOST_LISTED = 20_000
FAR = 99_999_999
NO_SPLIT = "no such split: turnspec check-server"


def check_tasks(desk: Desk, name: str, split: str) -> list[Place]:
    """Check the task routes of a split; the first task and another one, where there are two."""
    _wrong_bodies(desk, name, split)
    count = desk.value(desk.post(f"/{name}/num_tasks", {"split": split}), "TaskCount")
    if count is None:
        return []
    number = int(count["num_tasks"])
    tasks = _listed(desk, name, split, number)
    if number < 1:
        return []
    last = number - 1
    places = []
    for index in dict.fromkeys((0, last)):
        task = _task(desk, name, split, index)
        if task is None:
            continue
        if tasks is not None and index < len(tasks) and tasks[index] != task:
            _differ(desk, f"POST /{name}/task", f"task {index} of {split!r} is not task {index} of the list")
        places.append(Place(split, index, task))
    from_end = _task(desk, name, split, -1)
    if places and from_end is not None and places[-1].index == last and from_end != places[-1].task:
        _differ(desk, f"POST /{name}/task", f"task -1 of {split!r} is not its last one, {last}")
    _ranges(desk, name, split, number, places)
    return places


def _listed(desk: Desk, name: str, split: str, number: int) -> list[Any] | None:
    if number > MOST_LISTED:
        return None
    answer = desk.post(f"/{name}/tasks", {"split": split})
    if answer.status == 400:  # a server may say that its split is too long to be listed
        desk.error(answer)
        return None
    listing = desk.value(answer, "TaskList")
    if listing is None:
        return None
    tasks: list[Any] = listing["tasks"]
    if len(tasks) != number:
        _differ(desk, answer, f"lists {len(tasks)} tasks of {split!r}; num_tasks says {number}")
    _same_name(desk, answer, listing, name)
    return tasks


def _task(desk: Desk, name: str, split: str, index: int) -> Any:
    answer = desk.post(f"/{name}/task", {"split": split, "index": index})
    found = desk.value(answer, "TaskAnswer")
    if found is None:
        return None
    _same_name(desk, answer, found, name)
    return found["task"]


def _ranges(desk: Desk, name: str, split: str, number: int, places: list[Place]) -> None:
    """A range is a slice: negative counts from the end, and what lies outside is left out."""
    known = {place.index: place.task for place in places}
    low = max(0, number - 2)
    for start, stop in ((0, 1), (-2, number + 97), (number, number + 5)):
        body = {"split": split, "start": start, "stop": stop}
        answer = desk.post(f"/{name}/task_range", body)
        found = desk.value(answer, "TaskList")
        if found is None:
            return
        wanted = range(number)[start:stop]
        tasks = found["tasks"]
        if len(tasks) != len(wanted):
            what = f"the range {start} to {stop} of {number} tasks of {split!r} has {len(tasks)}, not {len(wanted)}"
            _differ(desk, answer, what)
            return
        for index, task in zip(wanted, tasks, strict=True):
            if index in known and known[index] != task:
                _differ(desk, answer, f"the range {start} to {stop} of {split!r} has another task {index}")
                return
    answer = desk.post(f"/{name}/task_range", {"split": split, "start": low})
    found = desk.value(answer, "TaskList")
    if found is not None and len(found["tasks"]) != number - low:
        _differ(desk, answer, f"the range from {low} without stop has {len(found['tasks'])} of {number - low} tasks")


def _wrong_bodies(desk: Desk, name: str, split: str) -> None:
    """Bodies that must be refused, and places that do not exist."""
    path = f"/{name}/num_tasks"
    for body, what in (
        ({}, "a body without split"),
        ({"split": 5}, "a split that is no string"),
        ({"split": split, "unknown": 1}, "a body with an unknown key"),
        ([], "a body that is a list"),
    ):
        desk.refused(desk.post(path, body), 422, "bad_body_accepted", what)
    broken = (b'{"split": ', "application/json")
    desk.refused(desk.post(path, raw=broken), (422, 400), "bad_body_accepted", "a body that is no JSON")
    plain = (b'{"split": "x"}', "text/plain")
    desk.refused(desk.post(path, raw=plain), (422, 415, 400), "bad_body_accepted", "a body that is text/plain")
    for route, more in (("tasks", {}), ("num_tasks", {}), ("task", {"index": 0}), ("task_range", {})):
        answer = desk.post(f"/{name}/{route}", {"split": NO_SPLIT, **more})
        desk.refused(answer, 400, "bad_place_accepted", "an unknown split")
    answer = desk.post(f"/{name}/task", {"split": split, "index": FAR})
    desk.refused(answer, 400, "bad_place_accepted", f"the index {FAR}")


def _same_name(desk: Desk, answer: Answer, value: dict[str, Any], name: str) -> None:
    if value["env_name"].lower() != name:
        _differ(desk, answer, f"names the environment {value['env_name']!r}, not {name!r}")


def _differ(desk: Desk, answer: Answer | str, message: str) -> None:
    desk.tell("tasks_disagree", answer, message)
