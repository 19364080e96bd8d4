import type { BackendChoice } from "@berth/server/open-backend"
import type { Policy } from "@berth/server/sandboxes/deciding/decide"
import type { Toolbox } from "@berth/toolbox/store"

export interface ChildSettings {
  readonly dataDir: string
  readonly toolbox: Pick<Toolbox, "id" | "directory">
  readonly backend: BackendChoice
  /** The port on which the server listened before, where clients that follow its events find it again. */
  readonly port: number
  /** Changes of the policy. Without them, unused sandboxes are neither paused nor stopped. */
  readonly policy: Partial<Policy>
}

export const TOKEN = "0123456789abcdef-crash"
