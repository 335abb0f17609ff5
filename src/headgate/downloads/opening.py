"""Chooses the implementation of a source; each is imported only when it is needed."""

from __future__ import annotations

from headgate.downloads.remote import Remote
from headgate.downloads.sources import BucketSource, DirectorySource, HubSource, Source


def remote(source: Source) -> Remote:
    match source:
        case HubSource():
            from headgate.downloads.hub import Hub

            return Hub(source)
        case BucketSource():
            from headgate.downloads.bucket import Bucket

            return Bucket(source)
        case DirectorySource():
            from headgate.downloads.tree import Tree

            return Tree(source)
