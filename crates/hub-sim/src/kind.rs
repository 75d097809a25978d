//! The kinds that a hub serves.

use serde_json::{Value, json};

use crate::schema::{ListKind, Schema};

/// A column of `kubectl get`.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its title.
    pub name: String,
    /// The type of its values: `string`, `integer` or `date`.
    pub of: String,
    /// Where the value is, such as `.status.phase`.
    pub path: String,
    /// Columns above 0 are shown with `-o wide` only.
    pub priority: i64,
    /// Whether the server prints the column itself, as it does for kinds of Kubernetes: ages and counts as texts, nothing as "".
    pub is_native: bool,
}

/// A kind and how it is served.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of the kind, independent of the others"
)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version in which objects are stored and served.
    pub version: String,
    /// The kind, such as `ManagedCluster`.
    pub kind: String,
    /// The name in paths, such as `managedclusters`.
    pub plural: String,
    /// The name of one object in commands.
    pub singular: String,
    /// Abbreviations for kubectl.
    pub short_names: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether the status is written through a subresource of its own.
    pub has_status: bool,
    /// The columns of `kubectl get`.
    pub columns: Vec<Column>,
    pub(crate) schema: Schema,
    /// The same as it was given, for people.
    pub(crate) openapi: Value,
    pub(crate) is_custom: bool,
    /// Whether a PUT without resourceVersion is accepted.
    pub(crate) unconditional_update: bool,
    /// Whether a PUT creates what does not exist.
    pub(crate) create_by_put: bool,
    /// Whether objects count their generation.
    pub(crate) has_generation: bool,
    /// Fields of a built-in kind that are there even if they are empty.
    pub(crate) always: Vec<(&'static str, Value)>,
}

impl Kind {
    /// Reads a `CustomResourceDefinition`. Of several versions, the one that is stored is served.
    ///
    /// # Errors
    /// It lacks a field that it must have; the text names it.
    pub fn from_crd(crd: &Value) -> Result<Self, String> {
        let text = |path: &str| {
            let found = crd.pointer(path).and_then(Value::as_str);
            found
                .map(str::to_owned)
                .ok_or_else(|| format!("the CRD has no text at {path}"))
        };
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let version = versions
            .into_iter()
            .flatten()
            .find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))
            .ok_or("the CRD has no version that is stored")?;
        let openapi = version
            .pointer("/schema/openAPIV3Schema")
            .ok_or("the CRD has no schema")?;
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let short_names = crd.pointer("/spec/names/shortNames").and_then(Value::as_array);
        Ok(Self {
            group: text("/spec/group")?,
            version: version
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            kind: text("/spec/names/kind")?,
            plural: text("/spec/names/plural")?,
            singular: text("/spec/names/singular").unwrap_or_default(),
            short_names: short_names
                .into_iter()
                .flatten()
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect(),
            namespaced: text("/spec/scope")? == "Namespaced",
            has_status: version.pointer("/subresources/status").is_some(),
            columns: columns.into_iter().flatten().map(Column::parse).collect(),
            schema: Schema::of_custom_resource(openapi),
            openapi: openapi.clone(),
            is_custom: true,
            unconditional_update: false,
            create_by_put: false,
            has_generation: true,
            always: Vec::new(),
        })
    }

    /// A kind that Kubernetes itself defines. Its objects are stored as they come.
    pub(crate) fn built_in(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            namespaced,
            has_status: false,
            columns: Vec::new(),
            schema: Schema::untyped(),
            openapi: json!({"type": "object"}),
            is_custom: false,
            unconditional_update: true,
            create_by_put: false,
            has_generation: false,
            always: Vec::new(),
        }
    }

    /// A kind that Kubernetes itself defines, with its fields.
    pub(crate) fn with_schema(mut self, openapi: &Value) -> Self {
        self.schema = Schema::of_custom_resource(openapi);
        self.openapi = openapi.clone();
        self
    }

    /// Whether these are namespaces.
    pub(crate) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    /// An object without content.
    pub(crate) fn empty_object(&self) -> Value {
        let mut object = json!({"apiVersion": self.api_version(), "kind": self.kind});
        for (name, value) in &self.always {
            object[*name] = value.clone();
        }
        object
    }

    /// A list of this kind's objects at a path that is merged by keys.
    pub(crate) fn keyed(mut self, path: &[&str], keys: &[&str]) -> Self {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let mut at = &mut self.schema;
        for step in path {
            at = at.properties.entry((*step).to_owned()).or_default();
        }
        at.list = ListKind::Keyed(keys);
        self
    }

    /// `managedclusters.cluster.open-cluster-management.io`, or `secrets` in the core group.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `cluster.open-cluster-management.io/v1`, or `v1` in the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            [&self.group, "/", &self.version].concat()
        }
    }
}

impl Column {
    fn parse(column: &Value) -> Self {
        let text = |name: &str| {
            column
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            name: text("name"),
            of: text("type"),
            path: text("jsonPath"),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            is_native: false,
        }
    }
}
