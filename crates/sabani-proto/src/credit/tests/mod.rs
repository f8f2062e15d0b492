mod granter;
mod model;
mod network;
mod over_time;
mod pieces;
