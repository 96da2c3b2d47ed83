//! Schemas that no type has: of choices, of values of several types, of members that may be null.

use utoipa::PartialSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, SchemaType, Type};

/// `T` or null, in its place.
pub(crate) fn nullable<T: PartialSchema>() -> RefOr<Schema> {
    match T::schema() {
        RefOr::T(Schema::Object(mut object)) => {
            object.schema_type = SchemaType::from_iter([Type::Object, Type::Null]);
            RefOr::T(Schema::Object(object))
        }
        other => other,
    }
}

/// A text that is one of these.
pub(crate) fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build()
}

/// A value of one of these types.
pub(crate) fn any_of(types: impl IntoIterator<Item = Type>) -> Object {
    ObjectBuilder::new().schema_type(SchemaType::from_iter(types)).build()
}
