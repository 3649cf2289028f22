// The causes of errors: each has a code, at which docs/trouble.md says what it means and what to do.
#pragma once

#include <string>
#include <string_view>

namespace kolo {

/// `text` with the code of its cause at its end, as in "... [K204]", or with `otherwise` if its cause is not
/// known and that is not empty. A text that ends in a code stays as it is.
std::string with_code(std::string text, std::string_view otherwise = {});

/// What docs/trouble.md says of a code, as in "K204", or of the text of an error; empty if there is nothing.
std::string explain_error(std::string_view code_or_text);

}  // namespace kolo
