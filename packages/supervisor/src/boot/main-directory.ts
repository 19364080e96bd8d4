import { join } from "node:path"
import type { BootContext } from "./context.ts"

/** The directory in which hooks run and the agent works: the first repo, or the workspace if there is none. */
export const mainDirectory = ({ plan, places }: Pick<BootContext, "plan" | "places">): string => {
  const [first] = plan.repos
  return first === undefined ? places.workspace : join(places.workspace, first.directory)
}
