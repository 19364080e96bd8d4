import type { Bytes } from "@berth/protocol/files"

export const bytesOf = (bytes: Bytes): Buffer =>
  typeof bytes === "string" ? Buffer.from(bytes) : Buffer.from(bytes.base64, "base64")
