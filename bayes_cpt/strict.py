"""The base of all tables that users write: specifications, objectives, spaces and statements."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Base of all tables: immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
