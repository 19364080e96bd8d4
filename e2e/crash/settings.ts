import type { BackendChoice } from "@berth/server/open-backend"
import type { Policy } from "@berth/server/sandboxes/deciding/decide"
import type { Toolbox } from "@berth/server/toolbox/store"

export interface ChildSettings {
  readonly dataDir: string
  readonly toolbox: Pick<Toolbox, "id" | "directory">
  readonly backend: BackendChoice
  /** Where it listened before: those who follow its events find it there again. */
  readonly port: number
  /** When sandboxes are paused and stopped that nobody uses. Without it, neither. */
  readonly policy: Partial<Policy>
}

export const TOKEN = "0123456789abcdef-crash"
