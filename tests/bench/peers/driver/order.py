"""The order that the jobs of the real handler carry: about 1 KB of JSON, ten lines."""

import json
from pathlib import Path

GOODS = (
    ("Ceramic mug, blue", 3, 1250), ("Tea towel, linen", 12, 890),
    ("Kettle 1.7 l, steel", 1, 4995), ("Green tea, 250 g", 6, 1120),
    ("Wooden spoon", 25, 340), ("Bread knife, 20 cm", 2, 2799),
    ("Glass jar with lid", 48, 275), ("Apron, cotton", 7, 1999),
    ("Cutting board, oak", 4, 3450), ("Espresso cup, white", 18, 660),
)


def order() -> dict:
    return {
        "id": 20481,
        "customer": "Marlene Example, 12 Harbour Street, 20457 Hamburg, second floor, ring twice",
        "currency": "EUR",
        "lines": [
            {"sku": f"SKU-2026-{4700 + number:06}", "name": name, "quantity": quantity,
             "price_cents": price}
            for number, (name, quantity, price) in enumerate(GOODS)
        ],
    }


def total() -> dict:
    """What every handler has to give back."""
    return {"order": order()["id"], "lines": len(GOODS), "total_cents": total_cents()}


def total_cents() -> int:
    return sum(quantity * price for _, quantity, price in GOODS)


def write(folder: Path) -> Path:
    path = folder / "order.json"
    path.write_text(json.dumps(order(), separators=(",", ":")))
    return path
