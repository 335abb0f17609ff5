"""CEL as in the validation rules of CustomResourceDefinitions.

An `Expression` is compiled from a rule's text and evaluates `self` and `oldSelf`. A rule that does not
compile, or needs an unsupported feature, raises `CelError` at registration.
"""

from headgate.kubeschema.cel.programs import MISSING, CelError, Expression, compiled

__all__ = ["MISSING", "CelError", "Expression", "compiled"]
