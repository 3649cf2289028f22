// OpenSSL, usable until the process ends.
#pragma once

namespace kolo::net {

/// Call it before any other function of OpenSSL; it switches off OpenSSL's cleanup at exit. That cleanup
/// would run before the destructors of objects made before OpenSSL's first use. But some threads end only
/// with the process's statics, as a store's server does, and still receive from ranks then. The first user of
/// OpenSSL in a process decides this. (If the application used it earlier, its cleanup runs after all that
/// kolo makes later is destroyed.) Thread-safe.
void use_openssl();

}  // namespace kolo::net
