// Steps through export and import of groups.
import { equal, holds, names, refused, until } from "./checks.mjs";

async function exporting(place) {
  const { api, group, grace, host } = place;
  const { GroupImportExports } = api;
  await api.Epics.create(group, "Voyage", { description: "Far" });
  equal(await GroupImportExports.scheduleExport(group), { message: "202 Accepted" });
  // The client waits a minute before it requests an archive again.
  const address = `${host}/api/v4/groups/${group}/export/download`;
  await until("the export", async () => (await fetch(address, { headers: { "Private-Token": grace.token } })).ok);
  place.archive = await GroupImportExports.download(group);
  const start = new Uint8Array(await place.archive.arrayBuffer()).slice(0, 3);
  equal([...start], [0x1f, 0x8b, 0x08]);
  await refused(403, place.his.GroupImportExports.scheduleExport(group));
}

async function importing({ api, group, archive }) {
  const file = { content: archive, filename: "codes.tar.gz" };
  const { GroupImportExports, Groups } = api;
  equal(await GroupImportExports.import(file, "copies", { name: "Copies" }), { message: "202 Accepted" });
  const made = await Groups.show("copies");
  holds(made, { name: "Copies", path: "copies", visibility: "private" });
  const told = async () => (await api.Groups.requester.get(`groups/${made.id}/import`)).body;
  await until("the import", async () => (await told()).import_status === "finished");
  equal(names(await api.Epics.all(made.id)), ["Voyage"]);
  equal(names(await api.GroupLabels.all(made.id), "name"), names(await api.GroupLabels.all(group), "name"));
  await refused(400, GroupImportExports.import(file, "copies", { name: "Copies" }));
  await Groups.remove(made.id);
}

export const transferring = [exporting, importing];
