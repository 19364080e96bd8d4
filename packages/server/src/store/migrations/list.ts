import { installation } from "./0001-installation.ts"
import { workspaces } from "./0002-workspaces.ts"
import { sandboxes } from "./0003-sandboxes.ts"
import { epoch } from "./0004-epoch.ts"
import { warnings } from "./0005-warnings.ts"
import { sessions } from "./0006-sessions.ts"
import { budgets } from "./0007-budgets.ts"
import { asks } from "./0008-asks.ts"
import { leases } from "./0009-leases.ts"
import { forks } from "./0010-forks.ts"
import { overdueStops } from "./0011-overdue-stops.ts"
import type { Migration } from "./migration.ts"

/**
 * Every migration, in order. A database's version is the number of these that it has run. To add one: write
 * `NNNN-what.ts` beside this file, append it here, describe its table in ../database.ts, and give the upgrade test rows
 * for it in samples.ts.
 */
export const MIGRATIONS: readonly Migration[] = [
  installation,
  workspaces,
  sandboxes,
  epoch,
  warnings,
  sessions,
  budgets,
  asks,
  leases,
  forks,
  overdueStops,
]
