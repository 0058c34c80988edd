"""All tests and state machines of the task lifecycle.

The oracle is `specs/lifecycle.toml`, written by hand.  The named invariants, such as
`terminal_states_are_sticky` and `progress_halts`, are functions over a history in
`taskmachine.statemachine.invariants`.

| file | shows |
|---|---|
| test_table.py | every cell of both tables, and the executor, agree with the oracle |
| test_cells.py, cells/ | a client observes a change of any single cell |
| test_lifecycle.py, test_times.py | the effect of each verb on the record, and every duration |
| test_invariants.py | each invariant rejects a history that breaks it, and only that |
| test_model.py | random events on many tasks: the code moves as the oracle does |
| test_generations.py | the same, encoded for 2025-11-25 and 2026-07-28 |
| test_dialects.py | receiver and requestor of each dialect over connections that lose and reorder |
| test_isolation.py | foreign tasks are indistinguishable from missing ones, in each dialect |
| test_stores.py | memory, SQLite and PostgreSQL answer as a simple model does |
| test_wire.py, wire/ | real servers over HTTP and stdio, on SQLite and PostgreSQL |
| planted_bugs.py | the bugs that the machines above must detect |

Each machine has a test that plants bugs and requires it to fail: a terminal state that moves,
progress after the end, a reused question key, a foreign task in a list, a waiter that is not woken,
a ttl that deletes live work.
"""
