//! The messages of the services, as plain structs: what the tests, the benches, `/json` and the cold calls
//! use.
//!
//! Not here: the two codecs of the hot call, `wire` and `reply`, which are held to
//! these structs byte by byte. Field numbers are those of the files in `proto/`.

pub mod check;
pub mod slots;

/// `envoy.service.ratelimit.v3` and what it takes from other packages.
pub mod rls {
    use std::collections::BTreeMap;

    /// A question: may this pass?
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct RateLimitRequest {
        /// Name of the rules to ask.
        #[prost(bytes = "vec", tag = "1")]
        pub domain: Vec<u8>,
        /// What is said of the request; each is answered on its own.
        #[prost(message, repeated, tag = "2")]
        pub descriptors: Vec<RateLimitDescriptor>,
        /// Hits of each descriptor that does not say itself; 0 means 1.
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
        /// A [`Unit`].
        #[prost(enumeration = "Unit", tag = "2")]
        pub unit: i32,
    }

    /// Units of time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, prost::Enumeration)]
    #[repr(i32)]
    pub enum Unit {
        /// None of the others.
        Unknown = 0,
        /// 1 s.
        Second = 1,
        /// 60 s.
        Minute = 2,
        /// 3,600 s.
        Hour = 3,
        /// 86,400 s.
        Day = 4,
        /// 30 days.
        Month = 5,
        /// 365 days.
        Year = 6,
        /// 7 days.
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

    /// The answer.
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
        /// Never sent.
        Unknown = 0,
        /// It may.
        Ok = 1,
        /// It may not.
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
        /// A [`Code`].
        #[prost(enumeration = "Code", tag = "1")]
        pub code: i32,
        /// The limit that was used; absent when none applies.
        #[prost(message, optional, tag = "2")]
        pub current_limit: Option<RateLimit>,
        /// Hits left.
        #[prost(uint32, tag = "3")]
        pub limit_remaining: u32,
        /// Until the full limit is there again.
        #[prost(message, optional, tag = "4")]
        pub duration_until_reset: Option<Duration>,
    }

    /// A limit.
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

    /// `google.protobuf.Duration`.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    pub struct Duration {
        /// Whole seconds.
        #[prost(int64, tag = "1")]
        pub seconds: i64,
        /// The rest.
        #[prost(int32, tag = "2")]
        pub nanos: i32,
    }

    /// A header field.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct HeaderValue {
        /// Name.
        #[prost(string, tag = "1")]
        pub key: String,
        /// Value.
        #[prost(string, tag = "2")]
        pub value: String,
    }

    /// `google.protobuf.Struct`.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Struct {
        /// Members by name.
        #[prost(btree_map = "string, message", tag = "1")]
        pub fields: BTreeMap<String, Value>,
    }

    /// `google.protobuf.Value`.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Value {
        /// What it is.
        #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
        pub kind: Option<Kind>,
    }

    /// Kinds of [`Value`].
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Kind {
        /// Null; the number is always 0.
        #[prost(int32, tag = "1")]
        Null(i32),
        /// A number.
        #[prost(double, tag = "2")]
        Number(f64),
        /// A text.
        #[prost(string, tag = "3")]
        String(String),
        /// True or false.
        #[prost(bool, tag = "4")]
        Bool(bool),
        /// A map.
        #[prost(message, tag = "5")]
        Struct(Struct),
        /// A list.
        #[prost(message, tag = "6")]
        List(List),
    }

    /// `google.protobuf.ListValue`.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct List {
        /// The items.
        #[prost(message, repeated, tag = "1")]
        pub values: Vec<Value>,
    }
}

/// `grpc.health.v1`.
pub mod health {
    use std::collections::BTreeMap;

    /// Which service?
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct HealthCheckRequest {
        /// Its name; empty asks for the server as a whole.
        #[prost(string, tag = "1")]
        pub service: String,
    }

    /// Does it serve?
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    pub struct HealthCheckResponse {
        /// A [`ServingStatus`].
        #[prost(enumeration = "ServingStatus", tag = "1")]
        pub status: i32,
    }

    /// Whether a service serves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, prost::Enumeration)]
    #[repr(i32)]
    pub enum ServingStatus {
        /// Never sent.
        Unknown = 0,
        /// It does.
        Serving = 1,
        /// It does not.
        NotServing = 2,
        /// `Watch` of a name that is not known.
        ServiceUnknown = 3,
    }

    /// Asks for every service.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    pub struct HealthListRequest {}

    /// Every service.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct HealthListResponse {
        /// By name.
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
        /// What is asked.
        #[prost(oneof = "Question", tags = "3, 4, 5, 6, 7")]
        pub question: Option<Question>,
    }

    /// What can be asked.
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

    /// An extension.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ExtensionRequest {
        /// What it extends.
        #[prost(string, tag = "1")]
        pub containing_type: String,
        /// Its number.
        #[prost(int32, tag = "2")]
        pub extension_number: i32,
    }

    /// An answer.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ServerReflectionResponse {
        /// As asked.
        #[prost(string, tag = "1")]
        pub valid_host: String,
        /// As asked.
        #[prost(message, optional, tag = "2")]
        pub original_request: Option<ServerReflectionRequest>,
        /// What is answered.
        #[prost(oneof = "Answer", tags = "4, 6, 7")]
        pub answer: Option<Answer>,
    }

    /// What can be answered.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum Answer {
        /// The file and all that it needs.
        #[prost(message, tag = "4")]
        Files(FileDescriptorResponse),
        /// Every service.
        #[prost(message, tag = "6")]
        Services(ListServiceResponse),
        /// There is no such thing.
        #[prost(message, tag = "7")]
        Error(ErrorResponse),
    }

    /// Files.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct FileDescriptorResponse {
        /// Each an encoded `google.protobuf.FileDescriptorProto`.
        #[prost(bytes = "bytes", repeated, tag = "1")]
        pub file_descriptor_proto: Vec<bytes::Bytes>,
    }

    /// Services.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ListServiceResponse {
        /// Each by its full name.
        #[prost(message, repeated, tag = "1")]
        pub service: Vec<ServiceResponse>,
    }

    /// A service.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ServiceResponse {
        /// Its full name.
        #[prost(string, tag = "1")]
        pub name: String,
    }

    /// What went wrong.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct ErrorResponse {
        /// A gRPC status code.
        #[prost(int32, tag = "1")]
        pub error_code: i32,
        /// What it was.
        #[prost(string, tag = "2")]
        pub error_message: String,
    }
}
