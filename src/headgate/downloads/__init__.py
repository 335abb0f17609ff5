"""Downloads of models: from a hub, from S3, or from a directory, into a directory that many processes share.

Given the text of a source and a target directory, `fetch` brings all files there, verified, or nothing. It
knows nothing of Models and Pods: `headgate download` and the runtime sidecar call it.
"""

from headgate.downloads.errors import DownloadError, Reason
from headgate.downloads.fetching import Options, fetch
from headgate.downloads.halting import Halt
from headgate.downloads.listing import Patterns
from headgate.downloads.manifest import Manifest
from headgate.downloads.progress import Report, Snapshot
from headgate.downloads.sources import cache_directory

__all__ = [
    "DownloadError",
    "Halt",
    "Manifest",
    "Options",
    "Patterns",
    "Reason",
    "Report",
    "Snapshot",
    "cache_directory",
    "fetch",
]
