//! Validation of JSON with schemas of the published documents.

use boon::{Compiler, Draft, Format, SchemaIndex, Schemas};
use serde_json::{Value, json};

/// Compiled schemas that share the components of a document.
pub struct CompiledSchemas {
    schemas: Schemas,
    indexes: Vec<SchemaIndex>,
}

impl CompiledSchemas {
    /// Compiles schemas, whose references lead to the components.
    ///
    /// # Panics
    /// If one of them is not a schema of the draft.
    pub fn new(draft: Draft, components: &Value, schemas: Vec<Value>) -> Self {
        let count = schemas.len();
        let mut compiler = Compiler::new();
        compiler.set_default_draft(draft);
        compiler.register_format(Format { name: "int64", func: is_int64 });
        let document = json!({ "components": components, "schemas": schemas });
        compiler.add_resource("urn:document", document).expect("an address");
        let mut compiled = Schemas::new();
        let indexes = (0..count).map(|number| {
            let address = format!("urn:document#/schemas/{number}");
            compiler.compile(&address, &mut compiled).unwrap_or_else(|error| panic!("{address}: {error:#}"))
        });
        let indexes = indexes.collect();
        Self { schemas: compiled, indexes }
    }

    /// Validates a value with the schema of this position.
    ///
    /// # Errors
    /// The violations, each with the location of its value.
    pub fn validate(&self, position: usize, value: &Value) -> Result<(), String> {
        self.schemas.validate(value, self.indexes[position]).map_err(|error| error.to_string())
    }
}

/// Checks that an integer is written without a fraction. JSON Schema accepts `1.0`, but clients with typed integers do not.
fn is_int64(value: &Value) -> Result<(), Box<dyn std::error::Error>> {
    match value.is_number() && value.as_i64().is_none() {
        true => Err("not a 64-bit integer".into()),
        false => Ok(()),
    }
}
