"""Changes to files, blind ones and ones that know the format; a random generator decides."""

import copy
import functools
import io
import json
import math
import os
import pickle
import random
import struct
import tomllib
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

MARK = "FKPINN_FUZZ_MARK"  # names the folder that code from a file would make


class Bomb:
    """Makes a folder when it is unpickled."""

    def __reduce__(self):
        return (os.mkdir, (os.environ.get(MARK, "exploded"),))


def mutate(content: bytes, kind: str, rng: random.Random) -> bytes:
    """A changed copy; `kind` is one of `npz`, `json`, `jsonl`, `toml`."""
    for _ in range(1 if rng.random() < 0.8 else rng.randint(2, 4)):
        aware = rng.random() < (0.7 if kind == "npz" else 0.6)
        try:
            content = (AWARE[kind] if aware else blind)(content, rng)
        except Exception:
            content = blind(content, rng)  # what was changed before can no longer be understood
    return content


# any bytes


def blind(content: bytes, rng: random.Random) -> bytes:
    """Bytes turned over, cut, moved, doubled, inserted or replaced."""
    data = bytearray(content)
    n = len(data)
    place = lambda: rng.randrange(n) if n else 0
    a, length = place(), rng.choice([1, 2, 4, 8, 40, 500])
    chunk = data[a : a + length]
    noise = rng.randbytes(length)
    match rng.randrange(11):
        case 0:
            for _ in range(rng.choice([1, 1, 2, 8, 32])):
                if n:
                    data[place()] ^= 1 << rng.randrange(8)
        case 1:
            for _ in range(rng.choice([1, 1, 3])):
                if n:
                    data[place()] = rng.randrange(256)
        case 2:
            del data[a:]
        case 3:
            del data[a : a + length]
        case 4:
            data[a:a] = chunk
        case 5:
            data[place() : place()] = chunk
        case 6:
            data[a:a] = noise
        case 7:
            data[a : a + length] = noise
        case 8:
            data[a : a + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, struct.pack("<I", 1 << 31)])
        case 9:
            data += noise
        case _:
            whole = pickle.dumps(Bomb())
            data = bytearray(rng.choice([b"", noise, whole, b"\x93NUMPY\x01\x00" + noise]))
    return bytes(data)


# trees of plain values

_NESTED: Any = functools.reduce(lambda inner, _: [inner], range(100), 0)
_NASTY: list[Any] = [
    True, False, 0, 1, -1, 2, 7, 10**18, 2**63, -(2**63), 10**30, 10**400, 0.0, -0.0, 0.5, 1e300,
    5e-324, math.inf, -math.inf, math.nan, "", "0", "x", "met", "x" * 3000, "\u2066é\n\t\"'`", "\0",
    "../../x", "%s%n", "{0}", "<script>", [], [0], [[]], [1, "x"], [[1.0], [2.0, 3.0]], {}, {"": 0},
    {"x": {}}, [{}], _NESTED,
]  # fmt: skip


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container in a tree with every key of it."""
    found, open_ = [], [tree]
    while open_:
        node = open_.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], (dict, list)):
                open_.append(node[key])
    return found


def change_tree(tree: Any, rng: random.Random, nasty: list[Any]) -> Any:
    """One node replaced, removed, renamed, moved or given another type."""
    tree = copy.deepcopy(tree)
    places = _places(tree)
    if not places or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(nasty))
    shallow = [place for place in places if place[0] is tree]  # long lists would hide them
    node, key = rng.choice(shallow if shallow and rng.random() < 0.5 else places)
    value = node[key]
    match rng.randrange(8):
        case 0 | 1 | 2:
            node[key] = copy.deepcopy(rng.choice(nasty))
        case 3:
            del node[key]
        case 4 if isinstance(node, dict):
            node[f"{key}{rng.choice(['', 's', ' ', '_'])}{rng.choice('xyz')}"] = node.pop(key)
        case 5:
            other, there = rng.choice(places)
            node[key] = copy.deepcopy(other[there]) if there in _keys(other) else None
        case 6 if isinstance(value, (int, float)) and not isinstance(value, bool):
            factor = rng.choice([-1, 0, 2, 0.5, 1e-9, 1e9])
            node[key] = rng.choice([value * factor, [value], str(value), math.nan])
        case 7 if isinstance(value, list):
            node[key] = rng.choice([value * 2, value[:-1], value[::-1], [value], [*value, None]])
        case _:
            node[key] = copy.deepcopy(rng.choice(nasty))
    return tree


def _keys(node: Any) -> Any:
    return node if isinstance(node, dict) else range(len(node))


def _raw(text: str, rng: random.Random) -> bytes:
    """Text that parsers have trouble with."""
    deep = rng.choice(["[" * 100_000, '{"a":' * 50_000, "[" * 3000 + "]" * 3000])
    at = rng.randrange(len(text) + 1)
    some = [
        text.encode("utf-16"), text.encode("latin-1", "replace"), b"\xef\xbb\xbf" + text.encode(),
        deep.encode(), (text[:at] + deep + text[at:]).encode(), b"\xff\xfe" + text.encode(),
        (text[:at] + "9" * 5000 + text[at:]).encode(), (text[:at] + "\0" + text[at:]).encode(),
        text.replace("0", "9" * 5000, 1).encode(), text.replace("=", "= " + "[" * 3000, 1).encode(),
        text.replace("0", "1e99999").encode(), text.replace('"', "'").encode(), b"null", b"[]",
        b"{}", (text + text).encode(), text.encode() + b"\x80",
    ]  # fmt: skip
    return rng.choice(some)


def change_json(content: bytes, rng: random.Random) -> bytes:
    """A JSON document with one value changed."""
    if rng.random() < 0.15:
        return _raw(content.decode(), rng)
    tree = json.loads(content)
    return json.dumps(change_tree(tree, rng, [*_NASTY, None, "\ud800"])).encode()


def change_lines(content: bytes, rng: random.Random) -> bytes:
    """Lines of JSON: one changed, doubled, torn or moved."""
    lines = content.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    if rng.random() < 0.6:
        lines[at] = change_json(lines[at], rng) + b"\n"
    else:
        rng.choice([lines.reverse, lambda: lines.insert(at, lines[at]), lambda: lines.pop(at)])()
    return b"".join(lines)


def change_toml(content: bytes, rng: random.Random) -> bytes:
    """A TOML document with one value changed."""
    if rng.random() < 0.15:
        return _raw(content.decode(), rng)
    tree = change_tree(tomllib.loads(content.decode()), rng, _NASTY)
    pairs = tree.items() if isinstance(tree, dict) else [("x", tree)]
    return "".join(f"{json.dumps(key)} = {_toml(value)}\n" for key, value in pairs).encode()


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case str():
            return json.dumps(value)
        case None:
            return "nothing"  # there is no such word
        case _:
            return repr(value)


# archives of arrays


def change_npz(content: bytes, rng: random.Random) -> bytes:
    """An archive of arrays with members, headers, numbers or sizes changed."""
    members = _members(content)
    names = list(members)
    name, other = rng.choice(names), rng.choice(names)
    match rng.randrange(12):
        case 0:
            members[name], members[other] = members[other], members[name]
        case 1:
            del members[name]
        case 2:
            members[rng.choice(["", "x", "../x", "points", name[:-4]]) + ".npy"] = members.pop(name)
        case 3 | 4:
            members[name] = _change_header(members[name], rng)
        case 5 | 6 | 7:
            members[name] = _change_numbers(members[name], rng)
        case 8:
            texts = [n for n, data in members.items() if b"<U" in data[:60]]
            name = rng.choice(texts)
            text = str(np.load(io.BytesIO(members[name])))
            members[name] = _npy(np.array(_text(change_json(text.encode(), rng))))
        case 9:
            members[name] = rng.choice([_pickled(), pickle.dumps(Bomb()), b"", rng.randbytes(90)])
        case 10:
            return _change_directory(content, rng)
        case _:
            return _packed(members, rng, again=rng.random() < 0.3)
    return _packed(members, rng)


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def _packed(members: dict[str, bytes], rng: random.Random, again: bool = False) -> bytes:
    buffer = io.BytesIO()
    how = rng.choice([zipfile.ZIP_STORED] * 6 + [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(buffer, "w", how) as file:
        name = "x.npy"
        for name, data in members.items():
            file.writestr(name, data)
        if rng.random() < 0.03:
            file.writestr(f"{rng.choice([*members, name])}x", _zeros(), zipfile.ZIP_DEFLATED)
        if again and members:
            name = rng.choice(list(members))
            twin = zipfile.ZipInfo("twin")
            file.writestr(twin, members[name])
            twin.filename = twin.orig_filename = name  # two members of one name
    return buffer.getvalue()


@functools.cache
def _zeros() -> bytes:
    """An array of zeros that fills memory, where it is unpacked."""
    return _npy(np.zeros(1 << 20))


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _pickled() -> bytes:
    array = np.empty((), object)
    array[()] = Bomb()
    return _npy(array)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape").replace("\0", "") or " "


def _change_header(data: bytes, rng: random.Random) -> bytes:
    """Type, shape, order or version of an array, or the words around them."""
    length = int.from_bytes(data[8:10], "little")
    header, body = data[10 : 10 + length].decode("latin-1"), data[10 + length :]
    start, end = header.index("'descr': ") + 9, header.index(", 'fortran")
    shape = slice(header.index("(") if "(" in header[end:] else end, header.rindex(")") + 1)
    version = b"\x01\x00"
    match rng.randrange(5):
        case 0 | 1:
            types = (
                "'<f8'", "'>f8'", "'<f4'", "'<i8'", "'<i4'", "'<u8'", "'|b1'", "'|O'", "'<c16'",
                "'<f2'", "'<f16'", "'|V8'", "'|S8'", "'<U4'", "'<U999999999'", "'<M8[s]'", "'<f3'",
                "'<U0'", "[('a', '<f8')]", "'" + "x" * 60000 + "'", "'<f8", "None", "1", "()",
            )  # fmt: skip
            header = header[:start] + rng.choice(types) + header[end:]
        case 2 | 3:
            shapes = (
                "()", "(0,)", "(1,)", "(-1,)", "(99999999999,)", "(2, 99999999999999999999)",
                "(0, 9999999999999999)", "(1, 1)", "(2, 3, 4)", "None", "[3]", "(1.5,)", "('x',)",
                "(" * 500 + ")" * 500, "(" + "1, " * 5000 + ")", "(True,)", "(1L,)", "(3)",
                "(9**9**9,)",
            )  # fmt: skip
            header = header[: shape.start] + rng.choice(shapes) + header[shape.stop :]
        case 4:
            swaps = (
                ("False", "True"), ("shape", "shap"), ("{", "{'x': 1, "), ("}", ""), (" ", "\t"),
                ("\n", " "), ("{", "["), ("{", "__import__('os').mkdir('x') or {"),
            )  # fmt: skip
            header = header.replace(*rng.choice(swaps), 1)
            version = rng.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00", b"\x00\x00"])
    text = header.encode("latin-1")
    return b"\x93NUMPY" + version + struct.pack("<H", len(text) & 0xFFFF) + text + body


def _change_numbers(data: bytes, rng: random.Random) -> bytes:
    """Values, shape or type of an array, and all that belongs to it as it should be."""
    array = np.load(io.BytesIO(data)).copy()
    if array.dtype.kind == "U":
        texts = ["", "{}", "[1]", "null", "x" * 9000, "{" * 900, str(array)[:-1], str(array) * 2]
        return _npy(np.array(rng.choice(texts) or " "))
    flat = array.reshape(-1)
    match rng.randrange(8):
        case 0 | 1 | 2:
            values = [math.nan, math.inf, -math.inf, -1, 0, 1, 1e300, -1e30, 2**31, 2**63 - 1]
            with np.errstate(all="ignore"):
                changed = flat.astype(np.float64)
                changed[rng.randrange(len(flat)) if len(flat) else slice(None)] = rng.choice(values)
                array = changed.astype(array.dtype).reshape(array.shape)
        case 3:
            array = flat.copy()
        case 4:
            array = array[:-1] if array.ndim else array[None]
        case 5:
            array = np.concatenate([flat, flat])
        case 6:
            kinds = ["<f4", "<f8", ">f8", "<i4", "<i8", "<u8", "|b1", "<f2", "<c16", "<f16"]
            with np.errstate(all="ignore"):
                array = np.nan_to_num(array.astype(np.float64)).astype(rng.choice(kinds))
        case _:
            array = rng.choice([array.T, array[..., None], array[:0] if array.ndim else array])
    return _npy(np.asarray(array, order="K"))


def _change_directory(content: bytes, rng: random.Random) -> bytes:
    """Sizes, flags, offsets and methods in the headers of the archive."""
    data = bytearray(content)
    marks: list[tuple[bytes, dict[int, str]]] = [
        (b"PK\x03\x04", {4: "H", 6: "H", 8: "H", 14: "I", 18: "I", 22: "I", 26: "H", 28: "H"}),
        (b"PK\x01\x02", {8: "H", 10: "H", 16: "I", 20: "I", 24: "I", 28: "H", 30: "H", 42: "I"}),
        (b"PK\x05\x06", {4: "H", 8: "H", 10: "H", 12: "I", 16: "I", 20: "H"}),
    ]  # fmt: skip
    mark, fields = rng.choice(marks)
    found = [i for i in range(len(data)) if data.startswith(mark, i)]
    at = rng.choice(found)
    offset = rng.choice(list(fields))
    size = struct.calcsize(fields[offset])
    big = (1 << 8 * size) - 1
    (old,) = struct.unpack_from("<" + fields[offset], data, at + offset)
    new = rng.choice([0, 1, 8, 12, 99, big, big - 1, big >> 1, old + 1, old ^ 1, old * 2, 1 << 11])
    struct.pack_into("<" + fields[offset], data, at + offset, new & big)
    return bytes(data)


AWARE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "npz": change_npz,
    "json": change_json,
    "jsonl": change_lines,
    "toml": change_toml,
}
