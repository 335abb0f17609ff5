"""Ids for answers whose requests brought none."""

import os
import uuid
from itertools import count


class Ids:
    """Made up by chance; or, with a seed, the same again for the same number of answers before."""

    def __init__(self, seed: int | None, port: int) -> None:
        """Engines of one seed have other ids on other ports."""
        self._seed = seed
        self._port = port
        self._numbers = count()

    def next(self) -> str:
        if self._seed is None:
            return os.urandom(16).hex()
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self._seed}-{self._port}-{next(self._numbers)}").hex
