import gzip
from pathlib import Path

from lab.texts.cleaning import (
    clean,
    documents,
)
from lab_sample import prose

CODE = "\n".join(f"int value_{number} = compute(first, second);" for number in range(30))
LICENCE = "/*\n * Copyright (C) 2001 Somebody\n * SPDX-License-Identifier: MIT\n */\n"


def test_a_licence_header_goes_and_other_comments_stay() -> None:
    assert clean(LICENCE + CODE, "c") == CODE
    comment = "/* Adds two numbers. */\n"
    assert clean(comment + CODE, "c") == comment + CODE
    script = "#!/usr/bin/python3\n# Licensed under the Apache License\n\nimport os\n"
    assert clean(script, "python") == "import os"


def test_documents_skips_unwanted_folders_links_and_other_kinds(tmp_path: Path) -> None:
    for folder in ("src", "po", "src/testdata"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "a.c").write_text(CODE)
    (tmp_path / "src" / "b.py").write_text(CODE)
    (tmp_path / "src" / "link.c").symlink_to(tmp_path / "src" / "a.c")
    (tmp_path / "src" / "page.txt.gz").write_bytes(gzip.compress(prose(1).encode()))
    kept = list(documents(tmp_path, "sample", ("c", "prose")))
    assert [document.path for document in kept] == ["src/a.c#0", "src/page.txt.gz#0"]
    assert kept[1].text == prose(1)
