"""Draw docs/images/rooms.svg, the rooms of the package and their imports: ``python docs/make_rooms.py``.

`tests/test_house.py` holds the picture to the imports.
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
CELL, LEFT, TOP, NAME = 40, 10, 10, 88

sys.path.insert(0, str(ROOT / "tests"))

from test_house import ROOMS, room_imports  # noqa: E402

STYLE = """
  text { font: 13px sans-serif; dominant-baseline: central; text-anchor: middle; fill: #1a1a1a; }
  .paper { fill: #ffffff; }
  .room { fill: #dce8f5; stroke: #1f5f99; }
  .line { stroke: #c8c8c8; }
  .import { fill: #1f5f99; }
"""


def picture() -> str:
    """Return the picture: rooms down a diagonal, a dot where the row's room imports the column's."""
    width = 2 * LEFT + CELL * (len(ROOMS) - 1) + NAME
    height = 2 * TOP + CELL * len(ROOMS)
    column = {name: LEFT + NAME / 2 + CELL * place for place, name in enumerate(ROOMS)}
    row = {name: TOP + CELL * (place + 0.5) for place, name in enumerate(ROOMS)}
    parts = [f'<rect class="paper" width="{width}" height="{height}"/>']
    for name in ROOMS:
        x, y = column[name], row[name]
        parts.append(f'<path class="line" d="M{LEFT},{y:g} H{x:g} V{height - TOP}" fill="none"/>')
    for name in ROOMS:
        x, y = column[name], row[name]
        parts.append(
            f'<rect class="room" x="{x - NAME / 2:g}" y="{y - 14:g}" width="{NAME}" height="28" rx="4"/>'
            f'<text x="{x:g}" y="{y:g}">{escape(name)}</text>'
        )
    for name, other in sorted(room_imports(), key=lambda pair: tuple(map(ROOMS.index, pair))):
        parts.append(
            f'<circle class="import" cx="{column[other]:g}" cy="{row[name]:g}" r="6">'
            f"<title>{name} imports {other}</title></circle>"
        )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="The rooms of bayes_cpt and their imports">\n<style>{STYLE}</style>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
