// SIGINT and SIGTERM as a flag, so that training ends between two steps, on all ranks after the same one.
#pragma once

namespace support {

/// From now on the two signals only set the flag. (Ctrl-C may arrive twice: from the terminal and from kolo
/// run.)
void catch_interrupts();
/// The signal that came, or 0.
int interrupt_signal();

}  // namespace support
