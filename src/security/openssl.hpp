// OpenSSL, ready to be used until the process is gone.
#pragma once

namespace kolo {

/// To be called before anything else of OpenSSL. It would free what it has at exit, ahead of whatever was
/// made before its first use; but threads that end only with the process's statics, as that of a store does,
/// still hear from ranks then. The first to use it in a process decides: we say that it shall not. (An
/// application that has used it before had it freed after all that we make later.) Thread-safe.
void use_openssl();

}  // namespace kolo
