#!/usr/bin/env python3
"""Writes a random sample of the sentences of openapi/, for a reading by someone who does not know the project.

Usage: sample.py SEED DIRECTORY [COUNT]. Writes one file of COUNT (default 200) sentences for each group of tags.
"""

import pathlib
import random
import re
import sys

import yaml

GROUPS = {
    "accounts": "users user_emails user_keys user_status two_factor_authentication personal_access_tokens impersonation_tokens "
    "project_access_tokens applications custom_attributes project_uploads application_settings metadata feature_gates "
    "audit_events",
    "spaces": "projects project_forks project_members project_shares project_stars groups group_members "
    "group_single_sign_on namespaces badges scim",
    "code": "branches commits repositories repository_files tags deploy_keys snippets project_snippets templates",
    "delivery": "pipelines pipeline_schedules pipeline_triggers commit_statuses deployments environments freeze_periods "
    "variables clusters feature_flags feature_flag_user_lists metrics_dashboards",
    "planning": "issues epics epic_issues labels milestones boards",
    "review": "merge_requests merges notes award_emoji todos events",
    "other": "container_registry vulnerabilities group_transfers project_hooks openapi parameters parameter_groups responses headers schemas "
    "security",
}
KEYS = ("summary", "description", "title")


def texts(value, path):
    """Yields every text of a document with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in KEYS and isinstance(inner, str):
                yield "/".join(path + [key]), inner
            elif key not in ("example", "examples", "default", "enum"):
                yield from texts(inner, path + [str(key)])
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, path + [str(inner.get("name", index)) if isinstance(inner, dict) else str(index)])


def sentences(text):
    """Splits a text at the ends of its sentences and lines of lists."""
    text = re.sub(r"\s*\n\s*(?:[-*]\s+|\n\s*)", "\0", text.strip())
    text = re.sub(r"\s+", " ", text.replace("\n", " "))
    for part in text.split("\0"):
        yield from (s for s in re.split(r"(?<=[.!?:]) (?=[A-Z`])", part) if s)


def main():
    seed, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    root = pathlib.Path(__file__).resolve().parents[2] / "openapi"
    found = {group: {} for group in GROUPS}
    for file in sorted(root.rglob("*.yaml")):
        group = next((group for group, names in GROUPS.items() if file.stem in names.split()), None)
        if group is None:
            sys.exit(f"{file} belongs to no group")
        for place, text in texts(yaml.safe_load(file.read_text()), [file.stem]):
            for sentence in sentences(text):
                found[group].setdefault(sentence, place)
    directory.mkdir(parents=True, exist_ok=True)
    for group, known in found.items():
        chosen = random.Random(f"{seed}/{group}").sample(sorted(known), min(count, len(known)))
        with (directory / f"{group}.tsv").open("w") as output:
            for number, sentence in enumerate(chosen, 1):
                output.write(f"{number}\t{known[sentence]}\t{sentence}\n")
        print(f"{group}: {len(chosen)} of {len(known)}")


if __name__ == "__main__":
    main()
