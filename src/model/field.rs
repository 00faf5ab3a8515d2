//! An argument of an action, as data: clap, forms, completion, config checks and docs read it.

/// What a field's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A size, `4G`. JSON number of bytes.
    Bytes,
    /// A whole number.
    Count,
    /// A name.
    Name,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A path on this machine.
    Path,
    /// A URL.
    Url,
    /// A span of time, `90s`. JSON number of seconds.
    Duration,
    /// `KEY=VALUE`.
    KeyValue,
    /// Any text.
    Text,
    /// Yes or no; a flag without a value.
    Flag,
    /// An instance: ID, name, glob.
    Selector,
    /// A context's name.
    Context,
    /// A snapshot's name.
    Snapshot,
    /// A task's ID.
    Task,
}

impl FieldKind {
    /// The word that stands for a value in help and docs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bytes => "SIZE",
            Self::Count => "N",
            Self::Name | Self::Snapshot => "NAME",
            Self::Choice(_) => "WORD",
            Self::Path => "PATH",
            Self::Url => "URL",
            Self::Duration => "TIME",
            Self::KeyValue => "KEY=VALUE",
            Self::Text | Self::Flag => "TEXT",
            Self::Selector => "INSTANCE",
            Self::Context => "CONTEXT",
            Self::Task => "TASK",
        }
    }
}

/// What a row's positionals are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupNoun {
    /// None are taken.
    None,
    /// Instances, by selector.
    Instances,
    /// The new instance's name.
    NewInstance,
    /// A file or folder that a new instance is made from.
    Source,
    /// Context names.
    Contexts,
    /// One new context's name.
    NewContext,
    /// Task IDs.
    Tasks,
    /// A file, `-` for standard input.
    File,
    /// One of the shells.
    Shell,
    /// Hosts, by name.
    Hosts,
    /// Storage pools, by name.
    Pools,
    /// Networks, by name.
    Networks,
    /// Images that are here, by name.
    Images,
    /// What an image is fetched from: a name of the catalogue, a URL, a file.
    ImageSources,
    /// Words of a front command.
    Words,
}

impl GroupNoun {
    /// What stands around instances in a context: it takes the scope flags that do not speak of instances.
    pub const fn is_around(self) -> bool {
        matches!(
            self,
            Self::Hosts | Self::Pools | Self::Networks | Self::Images | Self::ImageSources
        )
    }

    /// The word that stands for a positional in help and docs; none are taken: none.
    pub const fn word(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Instances => Some("INSTANCE"),
            Self::NewInstance | Self::NewContext => Some("NAME"),
            Self::Contexts => Some("CONTEXT"),
            Self::Tasks => Some("TASK"),
            Self::File | Self::Source => Some("FILE"),
            Self::Shell => Some("SHELL"),
            Self::Hosts => Some("HOST"),
            Self::Pools => Some("STORAGE"),
            Self::Networks => Some("NETWORK"),
            Self::Images => Some("IMAGE"),
            Self::ImageSources => Some("NAME|URL|FILE"),
            Self::Words => Some("WORD"),
        }
    }
}

/// One argument.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Long flag without dashes, and the key in `Action::args`.
    pub name: &'static str,
    /// Kind of value.
    pub kind: FieldKind,
    /// Short flag.
    pub short: Option<char>,
    /// Must be given.
    pub required: bool,
    /// May be given several times.
    pub many: bool,
    /// What is used when it is absent, as typed.
    pub default: Option<&'static str>,
    /// Never printed, logged or journalled.
    pub secret: bool,
    /// A text of several lines.
    pub lines: bool,
    /// A file whose text may be typed where there is room for it.
    pub typed: bool,
    /// One line of help.
    pub doc: &'static str,
}

impl Field {
    /// An optional single value.
    pub const fn new(name: &'static str, kind: FieldKind, doc: &'static str) -> Self {
        Self {
            name,
            kind,
            short: None,
            required: false,
            many: false,
            default: None,
            secret: false,
            lines: false,
            typed: false,
            doc,
        }
    }

    /// A flag without a value.
    pub const fn flag(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, FieldKind::Flag, doc)
    }

    /// With a short flag.
    #[must_use]
    pub const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    /// Must be given.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// May be repeated.
    #[must_use]
    pub const fn many(mut self) -> Self {
        self.many = true;
        self
    }

    /// With a default, as typed.
    #[must_use]
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// A text that may have several lines.
    #[must_use]
    pub const fn lines(mut self) -> Self {
        self.lines = true;
        self
    }

    /// A file whose text may be typed instead of its name, in a form.
    #[must_use]
    pub const fn typed(mut self) -> Self {
        self.typed = true;
        self
    }

    /// A secret.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }
}
