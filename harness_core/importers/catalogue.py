"""All importers by name."""

from collections.abc import Mapping
from typing import Final

from harness_core.importers.atif import AtifImporter
from harness_core.importers.base import Importer
from harness_core.importers.classeval import ClassevalImporter
from harness_core.importers.codet import CodetImporter
from harness_core.importers.cruxeval import CruxevalImporter
from harness_core.importers.decisions import DecisionsImporter
from harness_core.importers.gsm8k_solutions import Gsm8kSolutionsImporter
from harness_core.importers.intercode import IntercodeImporter
from harness_core.importers.lats import LatsImporter
from harness_core.importers.ldb import LdbImporter
from harness_core.importers.mint import MintImporter
from harness_core.importers.mlflow_traces import MlflowTracesImporter
from harness_core.importers.native import NativeImporter
from harness_core.importers.openai_chat import OpenaiChatImporter
from harness_core.importers.reflexion import ReflexionImporter
from harness_core.importers.tau_bench import TauBenchImporter
from harness_core.importers.tot import TotImporter

_ALL: Final[tuple[Importer, ...]] = (
    NativeImporter(),
    AtifImporter(),
    OpenaiChatImporter(),
    CodetImporter(),
    ClassevalImporter(),
    LdbImporter(),
    ReflexionImporter(),
    LatsImporter(),
    CruxevalImporter(),
    IntercodeImporter(),
    MintImporter(),
    Gsm8kSolutionsImporter(),
    TotImporter(),
    TauBenchImporter(),
    DecisionsImporter(),
    MlflowTracesImporter(),
)

IMPORTERS: Final[Mapping[str, Importer]] = {importer.name: importer for importer in _ALL}
