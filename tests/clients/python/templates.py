"""Walks through templates: built-in ones, through a project and through the older paths, and those of a project."""

import datetime

from checks import equal, holds, refused


class Templates:
    """Takes from `walk`: ada and her group of engines."""

    def __init__(self, walk):
        self.walk, self.group = walk, walk.engines
        self.project = walk.her.projects.create({
            "name": "Templates", "path": "templates", "namespace_id": walk.engines.id, "visibility": "public",
            "initialize_with_readme": True, "default_branch": "main",
        })
        self.project.commits.create({
            "branch": "main", "commit_message": "Keep templates", "actions": [
                {"action": "create", "file_path": path, "content": content} for path, content in [
                    (".gitlab/issue_templates/Bug report.md", "What is broken?\n"),
                    (".service/merge_request_templates/Default.md", "Why?\n"),
                    ("Dockerfile/Own.dockerfile", "FROM engine\n"),
                    ("LICENSE/Company.txt", "(c) [year] {fullname}\n"),
                ]
            ],
        })

    def files(self):
        root, project = self.walk.root, self.project
        for older, newer, key in [
            (root.dockerfiles, project.dockerfile_templates, "Node"),
            (root.gitignores, project.gitignore_templates, "C++"),
            (root.gitlabciymls, project.gitlabciyml_templates, "Pages/HTML"),
        ]:
            names = [each.name for each in older.list(get_all=True)]
            assert key in names and len(names) > 10, names
            equal([each.name for each in newer.list(get_all=True)], names)
            equal(newer.get(key).content, older.get(key).content)
            refused(404, older.get, "no-such")
            refused(404, newer.get, "no-such")
        # Clients expect more than one page of these.
        equal(len(root.gitlabciymls.list(per_page=20, get_all=False)), 20)
        assert "script" in root.gitlabciymls.get("Nodejs").content

    def licenses(self):
        root, project = self.walk.root, self.project
        year = datetime.date.today().year
        equal([each.key for each in root.licenses.list(popular=True)], ["apache-2.0", "gpl-3.0", "mit"])
        license = root.licenses.get("gpl-3.0", project="Engine", fullname="Ada")
        holds(license, name="GNU General Public License v3.0", nickname="GNU GPLv3", popular=True)
        assert "disclose-source" in license.conditions and f"Copyright (C) {year}  Ada" in license.content
        assert "     Engine\n" in license.content
        mit = project.license_templates.get("mit", fullname="Ada")
        assert f"Copyright (c) {year} Ada" in mit.content, mit.content
        assert "mit" in [each.key for each in project.license_templates.list(get_all=True)]

    def own(self):
        project = self.project
        equal([each.name for each in project.issue_templates.list()], ["Bug report"])
        equal(project.issue_templates.get("Bug report").content, "What is broken?\n")
        equal([each.name for each in project.merge_request_templates.list()], ["Default"])
        equal(project.merge_request_templates.get("Default").content, "Why?\n")

    def of_groups(self):
        group, project = self.group, self.project
        group.file_template_project_id = project.id
        group.save()
        equal(group.file_template_project_id, project.id)
        equal([each.name for each in project.dockerfile_templates.list(get_all=True)][:2], ["Own", "Binary"])
        equal(project.dockerfile_templates.get("Own").content, "FROM engine\n")
        license = project.license_templates.get("Company", fullname="Ada")
        holds(license, name="Company", nickname=None, content=f"(c) {datetime.date.today().year} Ada\n")

    def the_rest(self):
        self.project.delete()

    STEPS = ["files", "licenses", "own", "of_groups", "the_rest"]
