#pragma once

namespace evenstep {

/// Version of the library, such as "0.1.0".
const char* version();

}  // namespace evenstep
