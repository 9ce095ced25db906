"""Unit files of systemd: they keep a part of the harness running, also after the machine was started anew."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path

UNITS = Path("/etc/systemd/system")
_ENV = "/usr/bin/env"
"""Starts a program of any name: systemd refuses quotes in that of its own."""


def unit_text(
    about: str, argv: Sequence[str], *, service: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> str:
    """A unit that starts the command at boot, as whoever asks for it, and again whenever it ends by itself.

    `service` has further lines of its section *Service*. Source: systemd.service(5), systemd.exec(5).
    """
    lines = {
        "ExecStart": " ".join(quoted(word.replace("$", "$$")) for word in (_ENV, *argv)),
        **({"User": pwd.getpwuid(os.getuid()).pw_name} if os.getuid() else {}),
        **service,
        "TasksMax": "infinity",
    }
    given = [f"Environment={quoted(f'{name}={value}')}" for name, value in sorted((environment or {}).items())]
    parts = {
        "Unit": [f"Description={about}", "After=network-online.target", "Wants=network-online.target"],
        "Service": [*(f"{name}={value}" for name, value in lines.items()), *given],
        "Install": ["WantedBy=multi-user.target"],
    }
    return "\n\n".join("\n".join([f"[{name}]", *rows]) for name, rows in parts.items()) + "\n"


def quoted(text: str) -> str:
    """One word of a unit file (systemd.syntax(7)). Raises `ValueError` for what no line can hold."""
    if "\n" in text or "\0" in text:
        raise ValueError("a unit file cannot hold line breaks")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def install_words(command: str, name: str) -> str:
    """How what the command prints becomes a service."""
    file = f"{name}.service"
    return f"{command} >{file} && sudo install -m 644 {file} {UNITS} && sudo systemctl enable --now {name}"
