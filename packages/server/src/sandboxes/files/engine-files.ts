import type { Backend } from "@berth/backends/backend"
import { BerthError } from "@berth/protocol/errors"
import type { WorkspaceFiles } from "./files.ts"

/**
 * The files of workspaces whose engine keeps them in its own volumes, so that none are on this host. Files that an
 * earlier server made here for such a workspace are removed with it.
 */
export const openEngineFiles = (
  backend: Pick<Backend, "removeFiles">,
  here: WorkspaceFiles,
): WorkspaceFiles => ({
  ...here,
  has: async () => false,
  claim: async () => [],
  remove: async (workspace) => {
    await backend.removeFiles(workspace)
    await here.remove(workspace)
  },
  assertHere: (workspace, deed) => {
    const message = `the files of ${workspace} are volumes of its engine, which is elsewhere: it cannot be ${deed}`
    throw new BerthError("backend.unsupported", message, {
      details: { workspace, supported: ["`berth up --name` of the same repo", "`berth cp`"] },
    })
  },
})
