"""Hypothesis strategies for random input."""

from hypothesis import strategies as st

from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import Outcome, Progress, Question

text = st.text(st.characters(codec="utf-8"), max_size=20)
"""Any text that JSON can carry: no lone surrogates."""

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(text, json_values, max_size=3)

ids = st.text("abcdef0123456789-", min_size=1, max_size=36)

questions = st.builds(
    Question,
    key=st.sampled_from(["name", "city", "age", "plan"]),
    method=st.sampled_from(["elicitation/create", "sampling/createMessage"]),
    params=st.sampled_from([b'{"message":"first"}', b'{"message":"second"}']),
)

progress = st.builds(
    Progress,
    value=st.integers(-5, 50) | st.floats(-5, 50),
    total=st.none() | st.integers(1, 100),
    message=st.none() | text,
)

text_blocks = st.fixed_dictionaries({"type": st.just("text"), "text": text})

tool_results = st.fixed_dictionaries(
    {"content": st.lists(text_blocks, max_size=2)},
    optional={"structuredContent": json_objects, "_meta": json_objects},
)


@st.composite
def results(draw: st.DrawFn) -> Outcome:
    """Draw the outcome of a tool that returned."""
    body: dict[str, object] = dict(draw(tool_results))
    is_error = draw(st.booleans())
    if is_error:
        body["isError"] = True
    return Outcome.of_result(encode_json(body), is_error=is_error)


errors = st.builds(
    Outcome.of_error,
    code=st.integers(-33000, 1000) | st.sampled_from([-32002, -32021, -32042, -32603]),
    message=text,
    data=st.none() | json_values.map(encode_json),
)
"""Outcomes of tools that raised an error."""
