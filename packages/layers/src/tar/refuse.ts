import { BerthError } from "@berth/protocol/errors"

/** Refuses an archive; `entry` is the name as it stands in the archive. */
export const refuse = (why: string, entry: string): never => {
  throw new BerthError("layers.archive_refused", `the archive is refused: ${why}`, {
    details: { why, entry: readable(entry) },
  })
}

const MAX_SHOWN = 200

/** Makes a name readable: names come as one character a byte, and from anyone. */
const readable = (entry: string): string =>
  Buffer.from(entry.slice(0, MAX_SHOWN), "latin1").toString("utf8")
