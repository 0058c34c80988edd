"""The life of a task: two tables, both executed.

MOVES says which event leads where.  DUTIES says what holds while a task is in a state.

- An event that MOVES does not list for a state is illegal: it changes nothing and raises
  `IllegalTransition`.  Every row is written out: no wildcards, no guards, no automatic moves.
- `submitted` means durably created and held by no worker.  Both MCP revisions show it as `working`.
- `answer` leaves other questions open, `resume` answers the last one while a worker waits for it,
  `requeue` hands the task to the next worker.  The record decides which of them happens before
  the table is asked (`lifecycle.answer`), so the table needs no conditions.
- `completed`, `failed` and `cancelled` are final: they can only be purged.
- Followers (workers, streams, waiting calls) see versions, and may miss some between two looks.
  They act on the duties of the state they find, never on the move that led there, so a process
  that sees only the latest version does the same as one that sees all of them.

Change a cell of either table and the server behaves differently; `tests/lifecycle/cells` tries
every cell.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["COLUMNS", "DUTIES", "TABLE", "TERMINAL", "Duties", "Event", "Row", "State"]

# source        event     destination
_MOVES_AS_TEXT = """
new             submit    submitted
submitted       start     working
submitted       report    submitted
submitted       complete  completed
submitted       fail      failed
submitted       cancel    cancelled
submitted       expire    failed
working         report    working
working         ask       input_required
working         complete  completed
working         fail      failed
working         cancel    cancelled
working         expire    failed
working         requeue   submitted
input_required  report    input_required
input_required  ask       input_required
input_required  answer    input_required
input_required  resume    working
input_required  requeue   submitted
input_required  complete  completed
input_required  fail      failed
input_required  cancel    cancelled
input_required  expire    failed
completed       purge     removed
failed          purge     removed
cancelled       purge     removed
"""

# state         queue      worker  progress  questions  waiters
_DUTIES_AS_TEXT = """
submitted       claimable  stops   flows     closed     wait
working         -          keeps   flows     closed     wait
input_required  -          keeps   flows     open       wait
completed       -          stops   halts     closed     answered
failed          -          stops   halts     closed     answered
cancelled       -          stops   halts     closed     answered
"""

COLUMNS: Final = {
    "queue": ("claimable", "-"),  # workers may claim it
    "worker": ("keeps", "stops"),  # a worker that runs its tool goes on
    "progress": ("flows", "halts"),  # requestors are notified of progress
    "questions": ("open", "closed"),  # delivered and answerable; otherwise withdrawn
    "waiters": ("wait", "answered"),  # calls that wait for the outcome go on waiting
}
"""The two words of each column of DUTIES: the first is true in `Duties`, the second false."""


class State(StrEnum):
    """Where a task is; `new` and `removed` are outside the store."""

    duties: "Duties"
    """Its row of DUTIES; outside the store there are none."""

    NEW = "new"
    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REMOVED = "removed"


class Event(StrEnum):
    """What can happen to a task."""

    SUBMIT = "submit"
    START = "start"
    REPORT = "report"
    ASK = "ask"
    ANSWER = "answer"
    RESUME = "resume"
    REQUEUE = "requeue"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    PURGE = "purge"


class Row(NamedTuple):
    """One legal move."""

    source: State
    event: Event
    dest: State


class Duties(NamedTuple):
    """One row of DUTIES, without its state."""

    is_queued: bool
    keeps_worker: bool
    shows_progress: bool
    is_waiting: bool
    is_live: bool


def _duties(cells: list[str]) -> Duties:
    pairs = zip(COLUMNS.values(), cells, strict=True)
    return Duties(*(not words.index(cell) for words, cell in pairs))


TABLE: Final = tuple(
    Row(State(source), Event(event), State(dest))
    for source, event, dest in map(str.split, _MOVES_AS_TEXT.strip().splitlines())
)
"""The legal moves, all of them."""

DUTIES: Final[Mapping[State, Duties]] = {
    State(state): _duties(cells)
    for state, *cells in map(str.split, _DUTIES_AS_TEXT.strip().splitlines())
}
"""What holds in each state that a store keeps."""

TERMINAL: Final = frozenset(state for state, duties in DUTIES.items() if not duties.is_live)
"""The final states: those in which every waiter is answered."""

for _state in State:
    _state.duties = DUTIES.get(_state, Duties(*[False] * len(COLUMNS)))
