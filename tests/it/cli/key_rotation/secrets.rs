//! An instance with values in all encrypted columns, and the values as a client of the key file reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::process::Stdio;

use domain::secrets::{CurrentKey, EncryptedColumn, KeyFile, Keyring};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use storage::database::{Database, DatabaseOptions};
use storage::entities::instances;
use tokio::io::AsyncWriteExt;

use crate::delivery::clusters::cluster;
use crate::delivery::pipeline_schedules::schedule;
use crate::support::Client;
use crate::support::authenticator::{Authenticator, start_setup};
use crate::support::git::Work;
use crate::support::process::{Process, Site, TOKEN};
use crate::support::users::PASSWORD;

/// Path of the project with secrets.
pub const PROJECT: &str = "/projects/root%2Fp";

/// An encrypted value of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub plain: String,
    pub sealed: String,
}

impl Stored {
    /// Returns the ID of the key.
    pub fn key(&self) -> &str {
        self.sealed.split('.').nth(1).expect("a key")
    }
}

/// Values by table, column and row.
pub type Values = BTreeMap<(&'static str, &'static str, i64), Stored>;

/// A running server with values in all encrypted columns.
pub struct Instance {
    pub site: Site,
    pub server: Process,
    pub database: Database,
    /// The app of the user curie.
    pub app: Authenticator,
    /// The token of the user curie.
    pub ada: String,
}

pub async fn open(site: &Site) -> Database {
    Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database")
}

impl Instance {
    /// Starts a server and creates one value of each kind at least.
    pub async fn create(site: Site) -> Self {
        Self::with_server(site.clone(), site.serve(&[]).await).await
    }

    pub async fn with_server(site: Site, server: Process) -> Self {
        let work = Work::new().await;
        work.commit("a", "1").await;
        site.import("p", &work.path).await;
        let database = open(&site).await;
        let root = Client::new(&server.base, Some(TOKEN));
        root.post("/groups", json!({ "name": "g", "path": "g" })).await.expect(201);
        let hook = json!({
            "url": "http://ada:url-password@127.0.0.1:1/", "token": "hook-token",
            "signing_token": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "custom_headers": [{ "key": "X-Key", "value": "hook-header" }],
            "url_variables": [{ "key": "key", "value": "hook-variable" }],
        });
        root.put("/application/settings", json!({ "allow_local_requests_from_hooks_and_services": true })).await;
        root.post(&format!("{PROJECT}/hooks"), hook).await.expect(201);
        let mirror = json!({ "url": "http://ada:mirror-password@127.0.0.1:1/" });
        root.post(&format!("{PROJECT}/remote_mirrors"), mirror.clone()).await.expect(201);
        root.put(&format!("{PROJECT}/mirror/pull"), mirror).await.expect(200);
        let check = json!({
            "name": "Check", "external_url": "https://checks.example.com/", "shared_secret": "check-secret",
        });
        root.post(&format!("{PROJECT}/external_status_checks"), check).await.expect(201);
        for all in ["/admin/ci", PROJECT, "/groups/g"] {
            let body = json!({ "key": "K", "value": format!("value of {all}") });
            root.post(&format!("{all}/variables"), body).await.expect(201);
        }
        let variable = json!({ "key": "K", "value": "value of a pipeline" });
        let body = json!({ "ref": "main", "variables": [variable] });
        root.post(&format!("{PROJECT}/pipeline"), body).await.expect(201);
        let schedule = schedule(&root, PROJECT).await;
        let body = json!({ "key": "K", "value": "value of a schedule" });
        root.post(&format!("{PROJECT}/pipeline_schedules/{schedule}/variables"), body).await.expect(201);
        root.post(&format!("{PROJECT}/triggers"), json!({ "description": "trigger" })).await.expect(201);
        root.get(&format!("{PROJECT}/feature_flags_client")).await.expect(200);
        cluster(&root, PROJECT, "*").await;
        let (ada, app) = user_with_second_factor(&site, &server).await;
        let instance = Self { site, server, database, app, ada };
        // So that a test can use the current code again.
        instance.execute("UPDATE two_factor_secrets SET last_used_step = NULL", vec![]).await;
        // Nothing writes this column yet.
        let import_url = instance.sealed("https://example.com/import", "projects.import_url:1").await;
        instance.execute("UPDATE projects SET import_url_encrypted = $1 WHERE id = 1", vec![import_url.into()]).await;
        instance
    }

    pub fn root(&self) -> Client {
        Client::new(&self.server.base, Some(TOKEN))
    }

    pub fn ada(&self) -> Client {
        Client::new(&self.server.base, Some(&self.ada))
    }

    pub async fn execute(&self, sql: &str, values: Vec<sea_orm::Value>) -> u64 {
        let statement = Statement::from_sql_and_values(self.database.backend(), sql, values);
        self.database.write().execute_raw(statement).await.expect("a statement").rows_affected()
    }

    /// Encrypts a value with the current key.
    pub async fn sealed(&self, value: &str, context: &str) -> String {
        let key = current_key(&self.site, &self.database).await;
        key.seal_token(value, context).expect("a value")
    }

    pub async fn values(&self) -> Values {
        values(&self.site, &self.database).await
    }

    /// Returns the fingerprint of the current key in the database.
    pub async fn fingerprint(&self) -> String {
        instances::key_fingerprint(self.database.read()).await.expect("a query").expect("an identity")
    }

    pub fn key_file(&self) -> KeyFile {
        KeyFile::read(&self.site.data.join("secret.key")).expect("a key file")
    }

    /// Checks that values are as before, that all use the only key of the file, and that the server reads them.
    pub async fn assert_rotated(&self, before: &Values) {
        let after = self.values().await;
        assert_eq!(plain(&after), plain(before));
        let keys: BTreeSet<&str> = after.values().map(Stored::key).collect();
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert_eq!(self.key_file().fingerprints(), [self.fingerprint().await]);
        let root = self.root();
        let project = root.get(PROJECT).await.expect(200).json();
        assert_eq!(project["runners_token"], plain_of(before, "projects", "runners_token_encrypted"));
        let group = root.get("/groups/g").await.expect(200).json();
        assert_eq!(group["runners_token"], plain_of(before, "namespaces", "runners_token_encrypted"));
        let variable = root.get(&format!("{PROJECT}/variables/K")).await.expect(200).json();
        assert_eq!(variable["value"], format!("value of {PROJECT}"));
        let triggers = root.get(&format!("{PROJECT}/triggers")).await.expect(200).json();
        assert_eq!(triggers[0]["token"], plain_of(before, "pipeline_triggers", "token_encrypted"));
        self.site.succeeds(&["doctor"]).await;
    }

    pub async fn stop(self) {
        self.server.stop().await;
        self.database.close().await.expect("closing");
    }
}

/// Creates the user curie, who is not part of the demo, with a second factor; returns a token and the app.
async fn user_with_second_factor(site: &Site, server: &Process) -> (String, Authenticator) {
    let arguments = ["admin", "create-user", "curie", "--email", "curie@example.com", "--password-stdin"];
    let mut command = site.command(&arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the binary");
    let mut stdin = child.stdin.take().expect("an input");
    stdin.write_all(PASSWORD.as_bytes()).await.expect("a password");
    drop(stdin);
    assert!(child.wait().await.expect("the binary").success());
    let token = site.succeeds(&["admin", "create-token", "curie"]).await.trim().to_owned();
    let client = Client::new(&server.base, Some(&token));
    let app = start_setup(&client).await;
    client.post("/user/two_factor/confirm", json!({ "code": app.code() })).await.expect(201);
    (token, app)
}

pub async fn current_key(site: &Site, database: &Database) -> CurrentKey {
    let keyring = Keyring::open_existing(&site.data.join("secret.key")).expect("a key file");
    keyring.refreshed(database).await.expect("the current key")
}

/// Returns all encrypted values, decrypted with the keys of the file.
pub async fn values(site: &Site, database: &Database) -> Values {
    let keyring = Keyring::open_existing(&site.data.join("secret.key")).expect("a key file");
    let mut values = Values::new();
    for column in EncryptedColumn::all() {
        let keys = column.key().iter().map(|key| format!(", CAST(\"{key}\" AS TEXT) AS \"key of {key}\""));
        let (table, name, keys) = (column.table(), column.column(), keys.collect::<String>());
        let sql = format!("SELECT id, {name} AS sealed{keys} FROM {table} WHERE {name} IS NOT NULL");
        let rows = database.read().query_all_raw(Statement::from_string(database.backend(), sql)).await;
        for row in rows.expect("rows") {
            let keys =
                column.key().iter().map(|key| row.try_get::<String>("", &format!("key of {key}")).expect("a key"));
            let keys: Vec<String> = keys.collect();
            let keys: Vec<&dyn Display> = keys.iter().map(|key| key as &dyn Display).collect();
            let (id, sealed): (i64, String) = (row.try_get("", "id").unwrap(), row.try_get("", "sealed").unwrap());
            let plain = keyring.decrypt(&sealed, &column.context(&keys));
            let plain = plain.unwrap_or_else(|error| panic!("{table}.{name} {id}: {error}")).into_exposed();
            values.insert((table, name, id), Stored { plain, sealed });
        }
    }
    values
}

pub fn plain(values: &Values) -> BTreeMap<(&'static str, &'static str, i64), &str> {
    values.iter().map(|(key, value)| (*key, value.plain.as_str())).collect()
}

fn plain_of(values: &Values, table: &str, column: &str) -> Value {
    let found = values.iter().find(|((of, name, _), _)| *of == table && *name == column);
    found.expect("a value").1.plain.as_str().into()
}
