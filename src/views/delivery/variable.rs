//! CI/CD variables.

use domain::delivery::variables::VariableDetail;

use contract::{InstanceVariable, Variable};

use crate::views::enums::Convert;

/// Returns an instance variable with its value.
#[must_use]
pub fn instance_variable(row: VariableDetail) -> InstanceVariable {
    InstanceVariable {
        variable_type: row.variable.kind.convert(),
        key: row.variable.key,
        value: row.value.into_exposed(),
        protected: row.variable.protected,
        masked: row.variable.masked,
    }
}

/// Returns a project or group variable with its value.
#[must_use]
pub fn variable(row: VariableDetail) -> Variable {
    Variable {
        variable_type: row.variable.kind.convert(),
        key: row.variable.key,
        value: row.value.into_exposed(),
        protected: row.variable.protected,
        masked: row.variable.masked,
        environment_scope: row.variable.environment_scope,
    }
}
