"""Files and variables that hold secrets, by their usual names."""

import re
from typing import Final

CREDENTIALS: Final = re.compile(
    r"(^|/)(etc/(g?shadow|sudoers)|proc/[^/]+/environ|\.aws/credentials|\.netrc|\.pgpass"
    r"|\.ssh/(?!known_hosts|config$|authorized_keys|[^/]*\.pub$)[^/]+"
    r"|\.git-credentials|\.kube/config|\.docker/config\.json|\.npmrc|\.pypirc|\.env|id_(rsa|ed25519"
    r"|ecdsa|dsa))$"
)
SECRET_VARIABLE: Final = re.compile(
    r"(^|_)(SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)(_|$)"
)
