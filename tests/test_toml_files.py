import re
from pathlib import Path

import pytest

from bayes_cpt.errors import SpecError, StudyError
from bayes_cpt.toml_files import read_toml


def written(folder: Path, content: bytes) -> Path:
    path = folder / "own.toml"
    path.write_bytes(content)
    return path


def test_tables_are_those_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbf[a]\nb = [1, -9223372036854775807]\n")
    assert read_toml(path) == {"a": {"b": [1, -9223372036854775807]}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a = 1\nb = x", "line 2"),
        (b"a = '\xff'", "byte 5 is not UTF-8"),
        (b"a = " + 5000 * b"[" + 5000 * b"]", "nested too deeply"),
        (b"a = " + 5000 * b"9", "digits"),
        (b"[[a]]\nb = 0x" + 5000 * b"f", "key a.b is a whole number of more than 64 bits"),
        (b"a = 9223372036854775808", "key a is a whole number of more than 64 bits"),
    ],
)
def test_what_is_no_toml_is_said_in_words(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)) as caught:
        read_toml(written(tmp_path, content), SpecError)
    assert isinstance(caught.value, StudyError)
    assert "own.toml: this is not TOML" in str(caught.value)
