"""Paths on a Unix machine that a command should leave alone, by what they are."""

import re
from typing import Final

EVERYTHING: Final = re.compile(
    r"^(/|/\*|~/?|~/\*|\$HOME/?\*?|\.\.?/?|\.?\*|/(bin|boot|etc|home"
    r"|lib|root|usr|var|dev|sys|proc)/?\*?)$"
)
ROOT: Final = re.compile(r"^(/|~/?|\$HOME/?|/(bin|boot|etc|home|lib|opt|root|usr|var)/?)$")
DEVICE: Final = re.compile(r"^/dev/(sd|hd|vd|xvd|nvme|mmcblk|mem|kmem|disk|dm-|md|loop|mapper/)")
SYSTEM: Final = re.compile(
    r"^/(etc|boot|bin|sbin|lib|lib32|lib64|usr/(local/)?s?bin|usr/lib|proc/sys)(/|$)"
)
START_FILE: Final = re.compile(
    r"(^|/)(\.ssh/authorized_keys|\.(bash|zsh)rc|\.(bash_)?profile|\.bash_(login|logout)|\.zshenv)$"
)
HISTORY: Final = re.compile(r"(^|/)\.(bash|zsh|python|mysql|psql)_history$|^/var/log/")
KEY_FOLDER: Final = re.compile(r"(^|[/@=:])\.(ssh|gnupg|aws)/?$")
ENDLESS: Final = re.compile(r"^/dev/(zero|u?random|full)$")
