//! Finds numbers that JSON cannot hold before they are stored as null.

use std::fmt;

use serde::Serialize;
use serde::ser::{self, Error as _};

/// Fails when a value contains NaN or an infinity anywhere. Allocates nothing.
pub(crate) fn check_finite_numbers<T: Serialize + ?Sized>(value: &T) -> Result<(), NonFiniteNumber> {
    value.serialize(FiniteNumberSerializer)
}

/// Why a value was refused.
#[derive(Debug)]
pub(crate) struct NonFiniteNumber(String);

impl fmt::Display for NonFiniteNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NonFiniteNumber {}

impl ser::Error for NonFiniteNumber {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

fn check_finite_float(value: f64) -> Result<(), NonFiniteNumber> {
    if value.is_finite() {
        Ok(())
    } else {
        Err(NonFiniteNumber::custom(format!("{value} is no JSON number")))
    }
}

/// A serializer that writes nothing.
#[derive(Clone, Copy)]
struct FiniteNumberSerializer;

macro_rules! passes {
    ($($method:ident($($argument:ty),*);)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<(), NonFiniteNumber> {
            Ok(())
        }
    )*};
}

macro_rules! opens {
    ($($method:ident($($argument:ty),*) -> $part:ident;)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<Self, NonFiniteNumber> {
            Ok(self)
        }
    )*};
}

impl ser::Serializer for FiniteNumberSerializer {
    type Ok = ();
    type Error = NonFiniteNumber;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    passes! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    opens! {
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_map(Option<usize>) -> SerializeMap;
        serialize_struct(&'static str, usize) -> SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
    }

    fn serialize_f32(self, value: f32) -> Result<(), NonFiniteNumber> {
        check_finite_float(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), NonFiniteNumber> {
        check_finite_float(value)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NonFiniteNumber> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T>(self, _: &'static str, value: &T) -> Result<(), NonFiniteNumber>
    where
        T: Serialize + ?Sized,
    {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), NonFiniteNumber>
    where
        T: Serialize + ?Sized,
    {
        value.serialize(self)
    }

    /// Text written by `Display` holds no number that JSON would lose; nothing is formatted for it.
    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Result<(), NonFiniteNumber> {
        Ok(())
    }
}

macro_rules! parts {
    ($($part:ident: $method:ident;)*) => {$(
        impl ser::$part for FiniteNumberSerializer {
            type Ok = ();
            type Error = NonFiniteNumber;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NonFiniteNumber> {
                value.serialize(*self)
            }

            fn end(self) -> Result<(), NonFiniteNumber> {
                Ok(())
            }
        }
    )*};
}

parts! {
    SerializeSeq: serialize_element;
    SerializeTuple: serialize_element;
    SerializeTupleStruct: serialize_field;
    SerializeTupleVariant: serialize_field;
}

macro_rules! named_parts {
    ($($part:ident;)*) => {$(
        impl ser::$part for FiniteNumberSerializer {
            type Ok = ();
            type Error = NonFiniteNumber;

            fn serialize_field<T>(&mut self, _: &'static str, value: &T) -> Result<(), NonFiniteNumber>
            where
                T: Serialize + ?Sized,
            {
                value.serialize(*self)
            }

            fn end(self) -> Result<(), NonFiniteNumber> {
                Ok(())
            }
        }
    )*};
}

named_parts! {
    SerializeStruct;
    SerializeStructVariant;
}

impl ser::SerializeMap for FiniteNumberSerializer {
    type Ok = ();
    type Error = NonFiniteNumber;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), NonFiniteNumber> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NonFiniteNumber> {
        value.serialize(*self)
    }

    fn end(self) -> Result<(), NonFiniteNumber> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;

    use super::check_finite_numbers;

    #[derive(Serialize)]
    enum Shape {
        Dot,
        Round(f32),
        Square { side: f64, at: (i64, f64) },
    }

    #[test]
    fn a_number_that_json_cannot_hold_is_found_wherever_it_is() {
        let square = |side, y| Shape::Square { side, at: (0, y) };
        let map = |it: Shape| BTreeMap::from([("a", Some(vec![Shape::Dot, it]))]);
        for fine in [Shape::Dot, Shape::Round(1.5), square(1.0, -2.0)] {
            assert!(check_finite_numbers(&map(fine)).is_ok());
        }
        for (bad, why) in [
            (Shape::Round(f32::NAN), "NaN is no JSON number"),
            (square(f64::INFINITY, 0.0), "inf is no JSON number"),
            (square(0.0, f64::NEG_INFINITY), "-inf is no JSON number"),
        ] {
            assert_eq!(check_finite_numbers(&map(bad)).unwrap_err().to_string(), why);
        }
    }
}
