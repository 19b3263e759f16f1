"""The study file: one file per noun, the YAML reader that knows lines, the errors."""

from reporter.study.load import load_studies, load_study
from reporter.study.problems import Problem, SpecError
from reporter.study.study import Study, StudyFile, study_schema

__all__ = ["Problem", "SpecError", "Study", "StudyFile", "load_studies", "load_study", "study_schema"]
