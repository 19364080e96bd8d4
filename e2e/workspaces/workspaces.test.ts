import { describeWorkspaces } from "./suite.ts"

describeWorkspaces()
