//! Requests that change what is said of an instance.

/// Request of the tags family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagsRequest {
    /// Tags to add; those it has are no fault.
    pub add: Vec<String>,
    /// Tags to remove; those it lacks are no fault.
    pub remove: Vec<String>,
}

/// Request of the notes family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteRequest {
    /// The new note; `None` removes it.
    pub text: Option<String>,
}

/// Request of the autostart family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutostartRequest {
    /// Start it with its host.
    pub on: bool,
}

/// Request of the native-definition family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditRequest {
    /// The whole new definition.
    pub text: String,
    /// The token of the text that was edited: another text there by now is a conflict.
    pub base: String,
    /// What the text is called in messages: the file it came from.
    pub label: String,
}
