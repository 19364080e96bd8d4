import { ARCHIVE_TYPE, SandboxView } from "@berth/protocol/sandboxes"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import {
  type CallOptions,
  type Connection,
  call,
  command,
  get,
  type Sendable,
  stream,
} from "./call.ts"

export interface Workspaces {
  /** The workspace as it was described last. */
  get(slug: string, options?: CallOptions): Promise<WorkspaceSpec>
  /** Removes a workspace that has no sandbox; `sandboxes.remove` removes a sandbox with its workspace. */
  remove(slug: string, options?: CallOptions): Promise<void>
  /**
   * The files of a workspace as they are at one moment, as an archive. Resolves when the archive begins, after the
   * changes since the last time are copied. An archive that breaks off fails the stream. Leaving the stream ends the
   * export.
   */
  exportFiles(slug: string, options?: CallOptions): Promise<ReadableStream<Uint8Array>>
  /**
   * Makes a workspace, which must not exist, on the files of an archive. Resolves when its sandbox has started; it
   * boots on. A signal cancels it, and leaves nothing unless the sandbox was begun already.
   */
  importFiles(slug: string, archive: Sendable, options?: CallOptions): Promise<SandboxView>
}

/** A server on a busy disk needs a while to move files away. */
const REMOVE_DEADLINE_MS = 60_000

/** The deadline for files of any size: the server gives up much earlier on a client or a disk that has stopped. */
const TRANSFER_DEADLINE_MS = 24 * 60 * 60_000

export const workspacesOf = (connection: Connection): Workspaces => {
  const at = (slug: string, rest = "") => `/v1/workspaces/${encodeURIComponent(slug)}${rest}`
  return {
    get: (slug, options) => get(connection, at(slug), WorkspaceSpec, options),
    remove: (slug, options) =>
      command(
        connection,
        { method: "DELETE", path: at(slug) },
        { deadlineMs: REMOVE_DEADLINE_MS, ...options },
      ),
    exportFiles: (slug, { signal, deadlineMs = TRANSFER_DEADLINE_MS } = {}) =>
      stream(connection, { path: at(slug, "/archive") }, { signal, deadlineMs }),
    importFiles: (slug, body, { signal, deadlineMs = TRANSFER_DEADLINE_MS } = {}) => {
      const headers = { "content-type": ARCHIVE_TYPE }
      const ask = { method: "PUT", path: at(slug, "/archive"), body, headers } as const
      return call(connection, ask, SandboxView, { signal, deadlineMs })
    },
  }
}
