//! The languages of pages and charts, and tables of texts in all of them.

/// The language of a page or a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Chinese.
    #[value(name = "zh-CN", alias = "zh")]
    Zh,
}

impl Language {
    /// Its name in HTML.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-CN",
        }
    }
}

/// Makes a struct `Texts` of rows `name: "Chinese", "English";`, so that a row without one of them does not
/// compile. `Texts::of` returns those of a [`Language`].
///
/// # Example
/// ```
/// mod texts {
///     tollgate_charts::texts! {
///         denied: "拒绝", "Denied";
///     }
/// }
/// use tollgate_charts::Language;
/// assert_eq!(texts::Texts::of(Language::Zh).denied, "拒绝");
/// ```
#[macro_export]
macro_rules! texts {
    ($($name:ident: $zh:literal, $en:literal;)*) => {
        /// The texts of one language.
        pub(crate) struct Texts { $(pub(crate) $name: &'static str,)* }

        impl Texts {
            pub(crate) const fn of(language: $crate::Language) -> &'static Self {
                const ZH: Texts = Texts { $($name: $zh,)* };
                const EN: Texts = Texts { $($name: $en,)* };
                match language {
                    $crate::Language::Zh => &ZH,
                    $crate::Language::En => &EN,
                }
            }
        }
    };
}
