//! The messages of the services, as plain structs, for the tests, the benches, `/json` and the cold calls.
//!
//! Not here: the two codecs of the hot call, `wire` and `reply`, which tests compare with these structs byte
//! by byte. Field numbers are those of the files in `proto/`.

pub mod check;
pub mod slots;

/// `envoy.service.ratelimit.v3`, and messages of other packages that it uses.
pub mod rls {
    use std::collections::BTreeMap;

    /// A request for a decision.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct RateLimitRequest {
        /// Name of the rules to ask.
        #[prost(bytes = "vec", tag = "1")]
        pub domain: Vec<u8>,
        /// Descriptors of the request; each is decided on its own.
        #[prost(message, repeated, tag = "2")]
        pub descriptors: Vec<RateLimitDescriptor>,
        /// Hits of each descriptor without its own number; 0 means 1.
        #[prost(uint32, tag = "3")]
        pub hits_addend: u32,
    }

    /// One descriptor: keys and values, outermost first.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct RateLimitDescriptor {
        /// Keys and values.
        #[prost(message, repeated, tag = "1")]
        pub entries: Vec<Entry>,
        /// A limit to use instead of the configured one.
        #[prost(message, optional, tag = "2")]
        pub limit: Option<RateLimitOverride>,
        /// Hits of this descriptor; 0 peeks.
        #[prost(message, optional, tag = "3")]
        pub hits_addend: Option<u64>,
        /// The hits are to be given back. Not supported: rejected.
        #[prost(bool, tag = "4")]
        pub is_negative_hits: bool,
    }

    /// One key and its value.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct Entry {
        /// The key: any bytes, where other readers want a text.
        #[prost(bytes = "vec", tag = "1")]
        pub key: Vec<u8>,
        /// The value: any bytes.
        #[prost(bytes = "vec", tag = "2")]
        pub value: Vec<u8>,
    }

    /// A limit that comes with the request.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    pub struct RateLimitOverride {
        /// Hits per unit.
        #[prost(uint32, tag = "1")]
        pub requests_per_unit: u32,
        /// Number of a [`Unit`].
        #[prost(enumeration = "Unit", tag = "2")]
        pub unit: i32,
    }

    /// Units of time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, prost::Enumeration)]
    #[repr(i32)]
    pub enum Unit {
        /// Unset, or any other unit.
        Unknown = 0,
        Second = 1,
        Minute = 2,
        Hour = 3,
        Day = 4,
        /// Counts as 30 days.
        Month = 5,
        /// Counts as 365 days.
        Year = 6,
        Week = 7,
    }

    impl Unit {
        const ALL: [Self; 8] = [
            Self::Unknown,
            Self::Second,
            Self::Minute,
            Self::Hour,
            Self::Day,
            Self::Month,
            Self::Year,
            Self::Week,
        ];

        /// The name in proto files and in JSON.
        #[must_use]
        pub const fn name(self) -> &'static str {
            match self {
                Self::Unknown => "UNKNOWN",
                Self::Second => "SECOND",
                Self::Minute => "MINUTE",
                Self::Hour => "HOUR",
                Self::Day => "DAY",
                Self::Month => "MONTH",
                Self::Year => "YEAR",
                Self::Week => "WEEK",
            }
        }

        /// The unit of that name.
        #[must_use]
        pub fn named(name: &str) -> Option<Self> {
            Self::ALL.into_iter().find(|unit| unit.name() == name)
        }
    }

    /// Reply to a [`RateLimitRequest`].
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct RateLimitResponse {
        /// A [`Code`]: of the request as a whole.
        #[prost(enumeration = "Code", tag = "1")]
        pub overall_code: i32,
        /// One for each descriptor, in order.
        #[prost(message, repeated, tag = "2")]
        pub statuses: Vec<DescriptorStatus>,
        /// Fields for the response to the client.
        #[prost(message, repeated, tag = "3")]
        pub response_headers_to_add: Vec<HeaderValue>,
        /// Data for Envoy's next filters.
        #[prost(message, optional, tag = "6")]
        pub dynamic_metadata: Option<Struct>,
    }

    /// May it pass?
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, prost::Enumeration)]
    #[repr(i32)]
    pub enum Code {
        /// Never sent by this server.
        Unknown = 0,
        Ok = 1,
        OverLimit = 2,
    }

    impl Code {
        /// The name in proto files and in JSON.
        #[must_use]
        pub const fn name(self) -> &'static str {
            match self {
                Self::Unknown => "UNKNOWN",
                Self::Ok => "OK",
                Self::OverLimit => "OVER_LIMIT",
            }
        }
    }

    /// The answer to one descriptor.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct DescriptorStatus {
        /// Number of a [`Code`].
        #[prost(enumeration = "Code", tag = "1")]
        pub code: i32,
        /// The limit that was used; absent when none applies.
        #[prost(message, optional, tag = "2")]
        pub current_limit: Option<RateLimit>,
        /// Hits left; the greatest `u32` if there are more.
        #[prost(uint32, tag = "3")]
        pub limit_remaining: u32,
        /// Until the full limit is there again.
        #[prost(message, optional, tag = "4")]
        pub duration_until_reset: Option<Duration>,
    }

    /// The limit that was used for a descriptor.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct RateLimit {
        /// Hits per unit.
        #[prost(uint32, tag = "1")]
        pub requests_per_unit: u32,
        /// A [`Unit`]; `UNKNOWN` for a period that is not exactly one unit.
        #[prost(enumeration = "Unit", tag = "2")]
        pub unit: i32,
        /// Its name, where it has one.
        #[prost(string, tag = "3")]
        pub name: String,
    }

    /// `google.protobuf.Duration`; never negative here.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    pub struct Duration {
        #[prost(int64, tag = "1")]
        pub seconds: i64,
        /// Nanoseconds beyond the whole seconds, 0 to 999,999,999.
        #[prost(int32, tag = "2")]
        pub nanos: i32,
    }

    /// A header field.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct HeaderValue {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }

    /// `google.protobuf.Struct`: a map of names to values.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Struct {
        /// Members by name.
        #[prost(btree_map = "string, message", tag = "1")]
        pub fields: BTreeMap<String, Value>,
    }

    /// `google.protobuf.Value`: any JSON value.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Value {
        #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
        pub kind: Option<Kind>,
    }

    /// Kinds of [`Value`].
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Kind {
        /// Null; the number is always 0.
        #[prost(int32, tag = "1")]
        Null(i32),
        #[prost(double, tag = "2")]
        Number(f64),
        #[prost(string, tag = "3")]
        String(String),
        /// True or false.
        #[prost(bool, tag = "4")]
        Bool(bool),
        #[prost(message, tag = "5")]
        Struct(Struct),
        #[prost(message, tag = "6")]
        List(List),
    }

    /// `google.protobuf.ListValue`: values in order.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct List {
        #[prost(message, repeated, tag = "1")]
        pub values: Vec<Value>,
    }
}

/// Messages of `grpc.health.v1`.
pub mod health {
    use std::collections::BTreeMap;

    /// Asks for the health of one service.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct HealthCheckRequest {
        /// Its name; empty asks for the server as a whole.
        #[prost(string, tag = "1")]
        pub service: String,
    }

    /// Does it serve?
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    pub struct HealthCheckResponse {
        /// Number of a [`ServingStatus`].
        #[prost(enumeration = "ServingStatus", tag = "1")]
        pub status: i32,
    }

    /// Whether a service serves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, prost::Enumeration)]
    #[repr(i32)]
    pub enum ServingStatus {
        /// Never sent by this server.
        Unknown = 0,
        Serving = 1,
        NotServing = 2,
        /// `Watch` of a name that is not known.
        ServiceUnknown = 3,
    }

    /// Asks for every service.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    pub struct HealthListRequest {}

    /// The health of every service.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct HealthListResponse {
        /// Status of each service, by name.
        #[prost(btree_map = "string, message", tag = "1")]
        pub statuses: BTreeMap<String, HealthCheckResponse>,
    }
}

/// `grpc.reflection.v1`, and `v1alpha`, which is the same under another name.
pub mod reflection {
    /// A question about what this server offers.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ServerReflectionRequest {
        /// Host the client means; given back.
        #[prost(string, tag = "1")]
        pub host: String,
        /// `None` for a question that this server does not know.
        #[prost(oneof = "Question", tags = "3, 4, 5, 6, 7")]
        pub question: Option<Question>,
    }

    /// Kinds of [`ServerReflectionRequest`].
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum Question {
        /// The file of that name.
        #[prost(string, tag = "3")]
        FileByFilename(String),
        /// The file that declares a service, method, message or enum.
        #[prost(string, tag = "4")]
        FileContainingSymbol(String),
        /// The file that declares an extension; there is none here.
        #[prost(message, tag = "5")]
        FileContainingExtension(ExtensionRequest),
        /// The extensions of a message; there are none here.
        #[prost(string, tag = "6")]
        AllExtensionNumbersOfType(String),
        /// Every service; the text is ignored.
        #[prost(string, tag = "7")]
        ListServices(String),
    }

    /// Names an extension.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ExtensionRequest {
        /// Full name of the extended message.
        #[prost(string, tag = "1")]
        pub containing_type: String,
        /// Field number of the extension.
        #[prost(int32, tag = "2")]
        pub extension_number: i32,
    }

    /// Answer to one [`ServerReflectionRequest`].
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ServerReflectionResponse {
        /// Host of the request.
        #[prost(string, tag = "1")]
        pub valid_host: String,
        /// The request, repeated.
        #[prost(message, optional, tag = "2")]
        pub original_request: Option<ServerReflectionRequest>,
        #[prost(oneof = "Answer", tags = "4, 6, 7")]
        pub answer: Option<Answer>,
    }

    /// Kinds of [`ServerReflectionResponse`].
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum Answer {
        /// The file and all that it needs.
        #[prost(message, tag = "4")]
        Files(FileDescriptorResponse),
        /// Names of all services.
        #[prost(message, tag = "6")]
        Services(ListServiceResponse),
        /// There is no such thing.
        #[prost(message, tag = "7")]
        Error(ErrorResponse),
    }

    /// A file and its dependencies.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct FileDescriptorResponse {
        /// Each an encoded `google.protobuf.FileDescriptorProto`.
        #[prost(bytes = "bytes", repeated, tag = "1")]
        pub file_descriptor_proto: Vec<bytes::Bytes>,
    }

    /// Names of all services.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ListServiceResponse {
        /// Each by its full name.
        #[prost(message, repeated, tag = "1")]
        pub service: Vec<ServiceResponse>,
    }

    /// One service of the list.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ServiceResponse {
        /// Its full name.
        #[prost(string, tag = "1")]
        pub name: String,
    }

    /// Why there is no answer.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ErrorResponse {
        /// A gRPC status code.
        #[prost(int32, tag = "1")]
        pub error_code: i32,
        /// Message for people.
        #[prost(string, tag = "2")]
        pub error_message: String,
    }
}
