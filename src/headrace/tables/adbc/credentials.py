"""What of a database's URI may be shown: nothing of a malformed one, no secret in errors; driver and executors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

_POSTGRES_SCHEMES = ("postgresql://", "postgres://")
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)
_SETTING = re.compile(r"""([\w.]+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&;]*)""")
_LIBPQ_SETTING = re.compile(r"""\s*\w+\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?!')(?:[^\s\\]|\\.)*)(?=\s|$)""", re.DOTALL)
_LIBPQ_NAMES = re.compile(
    r"service|user|host(addr)?|port|dbname|options|\w+_\w+|keepalives|replication|(ssl|gss|krb)\w+"
)
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_HOSTS = re.compile(r"(?:\[[^\[\]]*\]|[^\[\]:,]*)(?::\d*)?(?:,(?:\[[^\[\]]*\]|[^\[\]:,]*)(?::\d*)?)*")
_FRAGMENT = 5  # a piece of a secret as long as this is not shown either


def check_uri(driver: str, uri: str) -> None:
    """Raises ValueError, which shows nothing of the URI, for one that PostgreSQL's library reads otherwise than meant.

    The library would take a part of the password for a host or a setting, and say which in its errors.
    """
    if driver != "postgresql" or not uri:
        return
    scheme = next((scheme for scheme in _POSTGRES_SCHEMES if uri.startswith(scheme)), None)
    wrong = _wrong_settings(uri) if scheme is None else _wrong_url(uri.removeprefix(scheme))
    if wrong:
        raise ValueError(
            f"the uri to connect to PostgreSQL with is malformed: {wrong}. It reads postgresql://user:password@host:port/"
            "database, with @ / ? % & = and blanks in a user or a password percent-encoded, as by "
            "urllib.parse.quote(password, safe=''); or host=... password='...', with \\ before ' and \\"
        )


def _wrong_settings(text: str) -> str | None:
    end = 0
    while found := _LIBPQ_SETTING.match(text, end):
        end = found.end()
    return "it is neither a URL nor a list of settings" if text[end:].strip() else None


def _wrong_url(rest: str) -> str | None:
    """In the parts that PostgreSQL's library sees: the first @ ends the password, unless a / comes before it."""
    authority, _, path = rest.partition("/")
    user, at, hosts = authority.partition("@") if "@" in authority else ("", "", authority)
    database, _, query = path.partition("?")
    if "?" in hosts:
        hosts, _, query = rest.removeprefix(user + at).partition("?")
        hosts, database = hosts.partition("/")[0], ""
    pairs = query.split("&") if query else []
    if any(char.isspace() for char in rest):
        return "it has a blank"
    if "@" in hosts + database or "?" in user:
        return "a password ends at the first @, and holds no / and no ?"
    if _BAD_PERCENT.search(rest):
        return "a % is not followed by two hexadecimal digits"
    if not _HOSTS.fullmatch(hosts):
        return "the part of host and port is not host:number"
    if any(pair.count("=") != 1 or pair.startswith("=") for pair in pairs):
        return "what follows the ? is not name=value, joined by &"
    return None


def without_credentials(error: Exception, uri: str, options: Iterable[tuple[str, str]]) -> Exception:
    """The error, and those it came from, without secrets in their texts; another where its text cannot be changed."""
    secrets = [*_secrets(uri), *_option_secrets(options)]
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            break
        seen.args = tuple(_hidden(part, uri, secrets) if isinstance(part, str) else part for part in seen.args)
        seen = seen.__cause__ or seen.__context__
    text = str(error)
    clean = _hidden(text, uri, secrets)
    return error if clean == text else RuntimeError(f"{type(error).__name__}: {clean}")


def _hidden(text: str, uri: str, secrets: list[str]) -> str:
    text = text.replace(uri, "<uri>") if secrets and uri else text
    hidden = [False] * len(text)
    for secret in secrets:
        size = min(len(secret), _FRAGMENT)
        for start in range(len(secret) - size + 1):
            for found in re.finditer(re.escape(secret[start : start + size]), text):
                hidden[found.start() : found.end()] = [True] * size
    shown = "".join("\0" if hide else char for char, hide in zip(text, hidden, strict=True))
    return re.sub("\0+", "***", shown)


def _option_secrets(options: Iterable[tuple[str, str]]) -> list[str]:
    found: list[str] = []
    for name, value in options:
        found += [value] if _SECRET_NAME.search(name) and value else _secrets(value) if name == "uri" else []
    return found


def _secrets(uri: str) -> list[str]:
    """Passwords and tokens of a URL or of ``name=value`` settings, as they stand there and decoded.

    A setting of a name that PostgreSQL's library does not know may be a piece of a password with a blank or an &.
    """
    found = []
    if "://" in uri:
        before_host = uri.partition("://")[2].rpartition("@")[0]
        found.append(before_host.partition(":")[2])
    settings = [(name, value.strip("'")) for name, value in _SETTING.findall(uri)]
    found += [value for name, value in settings if _SECRET_NAME.search(name)]
    if found and (uri.startswith(_POSTGRES_SCHEMES) or "://" not in uri):
        unknown = [
            pair for pair in settings if not _SECRET_NAME.search(pair[0]) and not _LIBPQ_NAMES.fullmatch(pair[0])
        ]
        found += [part for pair in unknown for part in pair]
    return [form for secret in found if secret for form in {secret, unquote(secret)}]
