//! A large instance, the same in every run: 10,000 users, 1,000 nested groups and 100,000 projects, with
//! members, shares, stars and topics. Rows are inserted with the server's entities, many at once. Repositories
//! are not created, because lists do not read them.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use domain::audit::Actor;
use domain::identity::access_tokens::{NewToken, create as create_token};
use domain::kernel::Backend;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, Statement,
};
use storage::entities::{
    AccessLevel, Visibility, access_tokens, fold, group_shares, members, namespace_ancestors, namespaces,
    project_shares, project_stars, project_topics, projects, settings, users,
};

use crate::Result;
use crate::random::Random;

/// Number of users.
const USERS: usize = 10_000;
/// Number of groups at all depths.
const GROUPS: usize = 1_000;
/// Number of projects.
const PROJECTS: usize = 100_000;
/// Number of groups of [`MEMBER`].
const MEMBERSHIPS: usize = 300;
/// User name and token of a member of many groups.
pub const MEMBER: (&str, &str) = ("user-00000", "measure-member-0123456789");
/// User name and token of a member of one group.
pub const NEWCOMER: (&str, &str) = ("user-00001", "measure-newcomer-0123456789");

/// Number of top-level groups, and the maximum depth.
const TOP: usize = 40;
const MAX_DEPTH: usize = 8;
const STARS: usize = 40_000;
const SHARES: usize = 4_000;
const GROUP_SHARES: usize = 300;
const TOPICS: usize = 200;
/// One of this many projects is in a personal namespace.
const PERSONAL: usize = 7;
/// Rows in each statement; both databases bind at most 32,766 values.
const AT_ONCE: usize = 1_000;
/// Setting that marks the population as complete; its value must be increased when the population changes.
const COMPLETE: (&str, &str) = ("bench_population", "1");

const LEVELS: [AccessLevel; 5] = [
    AccessLevel::Guest,
    AccessLevel::Reporter,
    AccessLevel::Developer,
    AccessLevel::Maintainer,
    AccessLevel::Owner,
];
const FIRST: [&str; 20] = [
    "Amber", "Brass", "Cobalt", "Crimson", "Dusty", "Early", "Fallow", "Golden", "Hollow", "Indigo", "Jolly",
    "Keen", "Late", "Mellow", "Narrow", "Open", "Plain", "Quiet", "Rusty", "Silver",
];
/// Words of titles.
pub const SECOND: [&str; 25] = [
    "Anchor", "Bridge", "Candle", "Donkey", "Engine", "Falcon", "Garden", "Harbor", "Island", "Jacket",
    "Kettle", "Lantern", "Meadow", "Needle", "Orchard", "Pillow", "Quarry", "Ribbon", "Saddle", "Turnip",
    "Umbrella", "Valley", "Window", "Yarrow", "Zephyr",
];

/// Fills an instance, unless it was filled before, and updates the database statistics.
pub async fn fill(backend: &Backend) -> Result<()> {
    let db = &backend.database;
    let found = settings::get(db.read(), COMPLETE.0).await?;
    if found.as_deref() == Some(COMPLETE.1) {
        return Ok(());
    }
    db.transaction(async |transaction| {
        let mut filling = Filling {
            db: transaction,
            random: Random::new(11),
        };
        filling.run().await
    })
    .await?;
    for (name, token) in [MEMBER, NEWCOMER] {
        let user = users::by_username(db.read(), name).await?;
        let new = NewToken {
            user_id: user.ok_or("a user is missing")?.id,
            name: "measure".to_owned(),
            kind: access_tokens::TokenKind::Personal,
            scopes: vec!["api".to_owned()],
            expires_at: None,
            created_by_id: None,
            secret: Some(token.to_owned()),
        };
        create_token(backend, &Actor::system(), new)
            .await
            .map_err(|error| error.to_string())?;
    }
    db.write().execute_unprepared("ANALYZE").await?;
    Ok(settings::put(db.write(), COMPLETE.0, COMPLETE.1).await?)
}

struct Filling<'a> {
    db: &'a DatabaseTransaction,
    random: Random,
}

/// A created group or personal namespace.
#[derive(Clone, Copy)]
struct Namespace {
    id: i64,
    widest: Visibility,
}

struct Group {
    parent: Option<usize>,
    depth: usize,
    name: String,
    path: String,
    visibility: Visibility,
}

impl Filling<'_> {
    async fn run(&mut self) -> Result<()> {
        let users = self.users().await?;
        let homes = self.homes(&users).await?;
        let groups = self.groups().await?;
        self.memberships(&users, &groups).await?;
        let projects = self.projects(&users, &homes, &groups).await?;
        self.shares(&projects, &groups).await
    }

    /// Inserts rows and returns their IDs in the same order.
    async fn insert<A>(&self, table: &str, rows: Vec<A>) -> Result<Vec<i64>>
    where
        A: ActiveModelTrait + Send,
    {
        let last = self.ids(table, 0, true).await?.first().copied().unwrap_or(0);
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let some: Vec<A> = rows.by_ref().take(AT_ONCE).collect();
            A::Entity::insert_many(some)
                .exec_without_returning(self.db)
                .await?;
        }
        Ok(self.ids(table, last, false).await?)
    }

    /// Returns the IDs in a table after one, or only the greatest.
    async fn ids(&self, table: &str, after: i64, greatest: bool) -> std::result::Result<Vec<i64>, DbErr> {
        let order = if greatest { "DESC LIMIT 1" } else { "ASC" };
        let sql = format!("SELECT id FROM {table} WHERE id > {after} ORDER BY id {order}");
        let statement = Statement::from_string(self.db.get_database_backend(), sql);
        let rows = self.db.query_all_raw(statement).await?;
        rows.iter().map(|row| row.try_get("", "id")).collect()
    }

    /// Returns two words.
    fn words(&mut self) -> (&'static str, &'static str) {
        let (first, second) = (self.random.below(FIRST.len()), self.random.below(SECOND.len()));
        (
            FIRST.get(first).copied().unwrap_or_default(),
            SECOND.get(second).copied().unwrap_or_default(),
        )
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> Result<T> {
        let index = self.random.below(of.len());
        of.get(index)
            .copied()
            .ok_or_else(|| "no item has this index".into())
    }

    async fn users(&mut self) -> Result<Vec<i64>> {
        let rows = (0..USERS).map(|number| {
            let (first, second) = self.words();
            let username = format!("user-{number:05}");
            users::ActiveModel {
                username: Set(username.clone()),
                username_key: Set(username.clone()),
                name: Set(format!("{first} {second}")),
                name_key: Set(fold(&format!("{first} {second}"))),
                email: Set(format!("{username}@example.com")),
                email_key: Set(format!("{username}@example.com")),
                confirmed_at: Set(Some(instant(number))),
                created_at: Set(instant(number)),
                updated_at: Set(instant(number)),
                ..Default::default()
            }
        });
        let rows: Vec<_> = rows.collect();
        self.insert("users", rows).await
    }

    /// Creates the personal namespaces.
    async fn homes(&mut self, users: &[i64]) -> Result<Vec<Namespace>> {
        let rows = users.iter().enumerate().map(|(number, user)| {
            let path = format!("user-{number:05}");
            let owner = namespaces::ActiveModel {
                kind: Set(namespaces::NamespaceKind::User),
                owner_id: Set(Some(*user)),
                ..namespace(&path, path.clone(), Visibility::Public, number)
            };
            namespaces::ActiveModel {
                path_key: Set(path.clone()),
                path: Set(path),
                ..owner
            }
        });
        let ids = self.insert("namespaces", rows.collect()).await?;
        let lines = ids.iter().map(|id| ancestor(*id, *id, 0)).collect();
        self.insert("namespace_ancestors", lines).await?;
        let widest = Visibility::Public;
        Ok(ids.into_iter().map(|id| Namespace { id, widest }).collect())
    }

    async fn groups(&mut self) -> Result<Vec<Namespace>> {
        let mut groups: Vec<Group> = Vec::with_capacity(GROUPS);
        for number in 0..GROUPS {
            let group = self.group(number, &groups);
            groups.push(group);
        }
        // Parents are inserted first, because their IDs are known only then.
        let mut ids: Vec<i64> = Vec::with_capacity(GROUPS);
        let mut lines = Vec::new();
        for depth in 0..MAX_DEPTH {
            let level = groups.iter().enumerate();
            let (numbers, rows): (Vec<usize>, Vec<_>) = level
                .filter(|(_, group)| group.depth == depth)
                .map(|(number, group)| {
                    let parent = group.parent.and_then(|parent| ids.get(parent)).copied();
                    let row = namespaces::ActiveModel {
                        kind: Set(namespaces::NamespaceKind::Group),
                        parent_id: Set(parent),
                        path: Set(format!("group-{number}")),
                        path_key: Set(format!("group-{number}")),
                        ..namespace(&group.name, group.path.clone(), group.visibility, number)
                    };
                    (number, row)
                })
                .unzip();
            let made = self.insert("namespaces", rows).await?;
            ids.resize(GROUPS, 0);
            for (number, id) in numbers.into_iter().zip(made) {
                if let Some(namespace) = ids.get_mut(number) {
                    *namespace = id;
                }
                let (mut above, mut steps) = (Some(number), 0);
                while let Some(group) = above {
                    lines.push(ancestor(id, ids.get(group).copied().unwrap_or(id), steps));
                    above = groups.get(group).and_then(|group| group.parent);
                    steps += 1;
                }
            }
        }
        self.insert("namespace_ancestors", lines).await?;
        let widest = groups.iter().map(|group| group.visibility);
        Ok(ids
            .into_iter()
            .zip(widest)
            .map(|(id, widest)| Namespace { id, widest })
            .collect())
    }

    fn group(&mut self, number: usize, earlier: &[Group]) -> Group {
        let (first, second) = self.words();
        let name = format!("{first} {second} {number}");
        let parent = (number >= TOP).then(|| self.random.below(number));
        let parent = parent.and_then(|parent| {
            let group = earlier.get(parent)?;
            let parent = if group.depth + 1 < MAX_DEPTH {
                Some(parent)
            } else {
                group.parent
            }?;
            Some((parent, earlier.get(parent)?))
        });
        // Few, because all their descendants are restricted too.
        let visibility = match self.random.below(33) {
            0 => Visibility::Private,
            1 => Visibility::Internal,
            _ => Visibility::Public,
        };
        match parent {
            None => Group {
                parent: None,
                depth: 0,
                name,
                path: format!("group-{number}"),
                visibility,
            },
            Some((parent, group)) => Group {
                parent: Some(parent),
                depth: group.depth + 1,
                name,
                path: format!("{}/group-{number}", group.path),
                visibility: visibility.min(group.visibility),
            },
        }
    }

    /// Creates the memberships in groups.
    async fn memberships(&mut self, users: &[i64], groups: &[Namespace]) -> Result<()> {
        let mut pairs = BTreeSet::new();
        let (member, newcomer) = match users {
            [member, newcomer, ..] => (*member, *newcomer),
            _ => return Err("there are too few users".into()),
        };
        while pairs.len() < MEMBERSHIPS {
            pairs.insert((member, self.any(groups)?.id));
        }
        pairs.insert((newcomer, self.any(groups)?.id));
        let others = users.get(2..).unwrap_or_default();
        for group in groups {
            for _ in 0..6 + self.random.below(30) {
                pairs.insert((self.any(others)?, group.id));
            }
        }
        let mut rows = Vec::with_capacity(pairs.len());
        for (user, group) in pairs {
            let row = members::ActiveModel {
                user_id: Set(user),
                namespace_id: Set(Some(group)),
                project_id: Set(None),
                access_level: Set(self.any(&LEVELS)?),
                expires_at: Set(self.end()),
                created_at: Set(instant(0)),
                updated_at: Set(instant(0)),
                ..Default::default()
            };
            rows.push(row);
        }
        self.insert("members", rows).await?;
        Ok(())
    }

    /// Creates the projects with their topics, stars and direct members.
    async fn projects(
        &mut self,
        users: &[i64],
        homes: &[Namespace],
        groups: &[Namespace],
    ) -> Result<Vec<i64>> {
        let (stars, starred) = self.stars(users)?;
        let mut ids: Vec<i64> = Vec::with_capacity(PROJECTS);
        while ids.len() < PROJECTS {
            let mut rows = Vec::with_capacity(AT_ONCE);
            for number in ids.len()..(ids.len() + AT_ONCE).min(PROJECTS) {
                let star_count = starred.get(number).copied().unwrap_or(0);
                let namespace = if self.random.once_in(PERSONAL) {
                    self.any(homes)?
                } else {
                    self.any(groups)?
                };
                let source = match self.random.once_in(50) && number > AT_ONCE {
                    true => Some(self.any(&ids)?),
                    false => None,
                };
                let creator = self.any(users)?;
                let row = self.project(number, namespace);
                rows.push(projects::ActiveModel {
                    creator_id: Set(Some(creator)),
                    forked_from_id: Set(source),
                    star_count: Set(star_count),
                    ..row
                });
            }
            ids.extend(self.insert("projects", rows).await?);
        }
        let rows = stars.into_iter().filter_map(|(user_id, number)| {
            Some(project_stars::ActiveModel {
                user_id: Set(user_id),
                project_id: Set(*ids.get(number)?),
                created_at: Set(instant(number)),
                ..Default::default()
            })
        });
        self.insert("project_stars", rows.collect()).await?;
        self.topics(&ids).await?;
        self.enrolments(users, &ids).await?;
        Ok(ids)
    }

    fn project(&mut self, number: usize, namespace: Namespace) -> projects::ActiveModel {
        let (first, second) = self.words();
        let name = format!("{first} {second} {number}");
        let path = fold(&name).replace(' ', "-");
        let visibility = match self.random.below(10) {
            0 | 1 => Visibility::Private,
            2 => Visibility::Internal,
            _ => Visibility::Public,
        };
        let active = number + self.random.below(PROJECTS);
        let (first, second) = self.words();
        let description = format!("All that the {first} {second} needs");
        projects::ActiveModel {
            namespace_id: Set(namespace.id),
            name_key: Set(fold(&name)),
            name: Set(name),
            path_key: Set(path.clone()),
            path: Set(path),
            description_key: Set(Some(fold(&description))),
            description: Set(Some(description)),
            visibility: Set(visibility.min(namespace.widest)),
            default_branch: Set(Some("main".to_owned())),
            archived: Set(self.random.once_in(20)),
            last_activity_at: Set(instant(active)),
            created_at: Set(instant(number)),
            updated_at: Set(instant(active)),
            ..Default::default()
        }
    }

    /// Returns the stars by user and project number, and the number of stars of each project.
    #[allow(clippy::type_complexity)]
    fn stars(&mut self, users: &[i64]) -> Result<(BTreeSet<(i64, usize)>, Vec<i32>)> {
        let mut stars = BTreeSet::new();
        let member = users.first().copied().unwrap_or_default();
        while stars.len() < STARS {
            let user = if self.random.once_in(200) {
                member
            } else {
                self.any(users)?
            };
            stars.insert((user, self.random.below(PROJECTS)));
        }
        let mut counts = vec![0; PROJECTS];
        for (_, number) in &stars {
            if let Some(count) = counts.get_mut(*number) {
                *count += 1;
            }
        }
        Ok((stars, counts))
    }

    async fn topics(&mut self, projects: &[i64]) -> Result<()> {
        let mut rows = Vec::new();
        for project in projects.iter().step_by(2) {
            let first = self.random.below(TOPICS);
            for number in first..=first + self.random.below(3) {
                rows.push(project_topics::ActiveModel {
                    project_id: Set(*project),
                    name: Set(format!("topic-{number}")),
                    ..Default::default()
                });
            }
        }
        self.insert("project_topics", rows).await?;
        Ok(())
    }

    /// Creates direct members of projects.
    async fn enrolments(&mut self, users: &[i64], projects: &[i64]) -> Result<()> {
        let mut rows = Vec::new();
        for project in projects.iter().step_by(5) {
            let mut some = BTreeSet::new();
            for _ in 0..=self.random.below(3) {
                some.insert(self.any(users)?);
            }
            for user in some {
                rows.push(members::ActiveModel {
                    user_id: Set(user),
                    namespace_id: Set(None),
                    project_id: Set(Some(*project)),
                    access_level: Set(self.any(&LEVELS)?),
                    expires_at: Set(self.end()),
                    created_at: Set(instant(0)),
                    updated_at: Set(instant(0)),
                    ..Default::default()
                });
            }
        }
        self.insert("members", rows).await?;
        Ok(())
    }

    /// Shares projects and groups with groups.
    async fn shares(&mut self, projects: &[i64], groups: &[Namespace]) -> Result<()> {
        let mut pairs = BTreeSet::new();
        while pairs.len() < SHARES {
            pairs.insert((self.any(projects)?, self.any(groups)?.id));
        }
        let mut rows = Vec::new();
        for (project, group) in pairs {
            rows.push(project_shares::ActiveModel {
                project_id: Set(project),
                group_id: Set(group),
                access_level: Set(self.any(&LEVELS)?),
                expires_at: Set(self.end()),
                created_at: Set(instant(0)),
                updated_at: Set(instant(0)),
                ..Default::default()
            });
        }
        self.insert("project_shares", rows).await?;
        let mut pairs = BTreeSet::new();
        while pairs.len() < GROUP_SHARES {
            let (group, with) = (self.any(groups)?.id, self.any(groups)?.id);
            if group != with {
                pairs.insert((group, with));
            }
        }
        let mut rows = Vec::new();
        for (group, with) in pairs {
            rows.push(group_shares::ActiveModel {
                namespace_id: Set(group),
                with_group_id: Set(with),
                access_level: Set(self.any(&LEVELS)?),
                expires_at: Set(self.end()),
                created_at: Set(instant(0)),
                updated_at: Set(instant(0)),
                ..Default::default()
            });
        }
        self.insert("group_shares", rows).await?;
        Ok(())
    }

    /// Returns an expiry date: usually none, sometimes one long ago.
    fn end(&mut self) -> Option<NaiveDate> {
        match self.random.once_in(20) {
            true => NaiveDate::from_ymd_opt(2020, 6, 1),
            false => None,
        }
    }
}

/// Returns the common columns of groups and personal namespaces.
fn namespace(
    name: &str,
    full_path: String,
    visibility: Visibility,
    number: usize,
) -> namespaces::ActiveModel {
    namespaces::ActiveModel {
        name: Set(name.to_owned()),
        name_key: Set(fold(name)),
        full_path_key: Set(full_path.clone()),
        full_path: Set(full_path),
        description: Set(String::new()),
        visibility: Set(visibility),
        created_at: Set(instant(number)),
        updated_at: Set(instant(number)),
        ..Default::default()
    }
}

fn ancestor(namespace: i64, above: i64, depth: i32) -> namespace_ancestors::ActiveModel {
    namespace_ancestors::ActiveModel {
        namespace_id: Set(namespace),
        ancestor_id: Set(above),
        depth: Set(depth),
        ..Default::default()
    }
}

/// Returns the time `minutes` after a fixed time.
fn instant(minutes: usize) -> DateTime<Utc> {
    let minutes = i64::try_from(minutes).unwrap_or(0);
    DateTime::UNIX_EPOCH + TimeDelta::days(18_262) + TimeDelta::minutes(minutes)
}
