# mypy: ignore-errors
"""Shared by the Python clients: one JSON object for each step, and the answers of a person."""

import json

ASKED = []


def report(step, **facts):
    print(json.dumps({"step": step, **facts}, default=str), flush=True)


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def shown(result):
    return {"content": [plain(block) for block in result.content], "isError": result.is_error}


async def fill_in(message, response_type, params, context):
    """Accept a form of FastMCP."""
    ASKED.append({"kind": "form", **plain(params)})
    return {"confirmed": True, "stage": "live"}
