"""The processes of `--jobs`: pieces go to whoever is idle, events come back in the order of the pieces."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing import connection, get_all_start_methods, get_context
from typing import Any

from msgspec import Struct

from turnspec.cli.failures import CommandError
from turnspec.cli.pieces import Begin, Item
from turnspec.cli.work import Event, Job, Piece, Report, Worker

FRAME = 1 << 18  # bytes a worker gathers before it sends
HELD = 1 << 22  # bytes of one piece kept here while an earlier piece is not done


class Frame(Struct, frozen=True):
    """What a worker sends: some events of its piece, their size, and whether they are the last of it."""

    events: list[Event]
    size: int
    last: bool


class Crash(Struct, frozen=True):
    """What a worker sends when it fails for a reason that nobody foresaw."""

    error: str
    traceback: str


class _Slot:
    """The place of an item in the order: its events so far, and the hand that works on it."""

    __slots__ = ("done", "events", "hand", "held")

    def __init__(self, hand: _Hand | None, events: list[Any]) -> None:
        self.events: deque[Any] = deque(events)
        self.hand = hand
        self.done = hand is None
        self.held = 0


class _Hand:
    """One worker process and the pipe to it."""

    def __init__(self, context: Any, job: Job, others: list[_Hand]) -> None:
        self.pipe, far = context.Pipe()
        self.slot: _Slot | None = None
        inherited = [hand.pipe for hand in others] + [self.pipe]
        forked = context.get_start_method() == "fork"
        self.process = context.Process(target=_serve, args=(far, job, inherited if forked else []), daemon=True)
        self.process.start()
        far.close()

    def receive(self) -> Frame:
        try:
            frame = self.pipe.recv()
        except (EOFError, OSError):
            raise CommandError("a worker process was killed; is there enough memory?") from None
        if isinstance(frame, Crash):
            if os.environ.get("TURNSPEC_DEBUG"):
                sys.stderr.write(frame.traceback)
            raise CommandError(f"internal error: {frame.error} (TURNSPEC_DEBUG=1 shows the traceback)")
        assert isinstance(frame, Frame)
        return frame


class Crew:
    """Workers that are ready. `dismiss` ends them, whatever they do."""

    def __init__(self, hands: list[_Hand]) -> None:
        self.hands = hands
        self.idle = list(hands)

    @classmethod
    def start(cls, job: Job, size: int) -> Crew | None:
        """Start `size` workers; None when the system gives no process."""
        context = get_context("fork" if _fork_is_safe() else "spawn")
        if sys.stdout is not None:
            sys.stdout.flush()  # or every forked process would write it again
        hands: list[_Hand] = []
        blocked = _block_signals()
        try:
            for _ in range(size):
                hands.append(_Hand(context, job, hands))
        except OSError:
            if not hands:
                return None
        finally:
            _unblock_signals(blocked)
        return cls(hands)

    def work(self, items: Iterator[Item]) -> Iterator[Begin | Event]:
        """Hand out the pieces of `items`; yields the other items and the events of the pieces, in order."""
        order: deque[_Slot] = deque()
        room = 4 * len(self.hands)
        item = next(items, None)
        while item is not None or order:
            while item is not None and len(order) < room:
                if not isinstance(item, Piece):
                    order.append(_Slot(None, [item]))
                elif self.idle:
                    order.append(self._hand_out(item))
                else:
                    break
                item = next(items, None)
            while order:
                while order[0].events:
                    yield order[0].events.popleft()
                order[0].held = 0
                if not order[0].done:
                    break
                order.popleft()
            if order and not (self.idle and item is not None and len(order) < room):
                self._listen(order[0])

    def _hand_out(self, piece: Piece) -> _Slot:
        hand = self.idle.pop()
        try:
            hand.pipe.send(piece)
        except OSError:
            hand.receive()  # says why it is gone
        hand.slot = _Slot(hand, [])
        return hand.slot

    def _listen(self, first: _Slot) -> None:
        """Take what workers have to say. Who works ahead has to wait when too much of it is held here."""
        busy = {hand.pipe: hand for hand in self.hands if hand.slot and (hand.slot is first or hand.slot.held < HELD)}
        for pipe in connection.wait(list(busy)):
            hand = busy[pipe]
            frame = hand.receive()
            slot = hand.slot
            assert slot is not None
            slot.events.extend(frame.events)
            slot.held += frame.size
            if frame.last:
                slot.done = True
                hand.slot = None
                self.idle.append(hand)

    def dismiss(self) -> None:
        for hand in self.hands:
            hand.pipe.close()
            if hand.slot is not None:
                hand.process.terminate()
        for hand in self.hands:
            hand.process.join(5)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join()


def _serve(pipe: Any, job: Job, inherited: list[Any]) -> None:
    """The life of a worker: it ends when the other end of its pipe is closed."""
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the first process decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _unblock_signals([signal.SIGINT, signal.SIGTERM])
    try:
        try:
            worker = Worker(job)
            while True:
                _work_on(worker, pipe.recv(), pipe)
        except (EOFError, OSError):
            return
        except BaseException as error:
            import traceback

            pipe.send(Crash(f"{type(error).__name__}: {error}", traceback.format_exc()))
    except OSError:
        return


def _work_on(worker: Worker, piece: Piece, pipe: Any) -> None:
    events: list[Event] = []
    size = 0
    for event in worker.run(piece):
        events.append(event)
        if isinstance(event, bytes):
            size += len(event)
        elif isinstance(event, Report):
            size += 500 * len(event.problems)
        if size > FRAME:
            pipe.send(Frame(events, size, False))
            events, size = [], 0
    pipe.send(Frame(events, size, True))


def _fork_is_safe() -> bool:
    """Forking is quick, but a process with threads must not; macOS libraries start threads of their own."""
    return "fork" in get_all_start_methods() and sys.platform != "darwin" and threading.active_count() == 1


def _block_signals() -> list[signal.Signals]:
    """Hold signals back while processes start, so that none meets them half made."""
    if not hasattr(signal, "pthread_sigmask"):
        return []
    numbers = [signal.SIGINT, signal.SIGTERM]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    return [number for number in numbers if number not in before]


def _unblock_signals(numbers: list[signal.Signals]) -> None:
    if numbers and hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
